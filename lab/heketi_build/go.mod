module abaca.lab/heketi

go 1.18

require (
	github.com/asaskevich/govalidator v0.0.0-20230301143203-a9d515a09cc2
	github.com/auth0/go-jwt-middleware v1.0.1
	github.com/boltdb/bolt v1.3.1
	github.com/dgrijalva/jwt-go v3.2.0+incompatible
	github.com/go-ozzo/ozzo-validation v3.5.0+incompatible
	github.com/gorilla/context v1.1.1
	github.com/gorilla/mux v1.8.0
	github.com/heketi/heketi v9.0.0+incompatible
	github.com/heketi/rest v0.0.0-20180404230133-aa6a65207413
	github.com/heketi/utils v0.0.0-20170317161834-435bc5bdfa64
	github.com/lpabon/godbc v0.1.1
	github.com/spf13/cobra v0.0.3
	github.com/urfave/negroni v1.0.0
	golang.org/x/crypto v0.17.0
)

require (
	github.com/form3tech-oss/jwt-go v3.2.2+incompatible // indirect
	github.com/spf13/pflag v1.0.5 // indirect
)

