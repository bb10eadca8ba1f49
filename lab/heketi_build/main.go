// SPDX-License-Identifier: Apache-2.0

// Heketi's server for tests, put together from its own packages: its routes, authorization, database and executors.
// It listens on one address and not on all, knows no Kubernetes, and of the commands beside serving `db export` and
// `db import` alone.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorilla/mux"
	"github.com/heketi/heketi/apps/glusterfs"
	"github.com/heketi/heketi/middleware"
	"github.com/heketi/heketi/server/admin"
	"github.com/heketi/heketi/server/config"
	"github.com/urfave/negroni"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "heketi:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "db" {
		must(turned(os.Args[2], os.Args[3:]))
		return
	}
	if len(os.Args) != 3 {
		must(fmt.Errorf("usage: heketi CONFIGURATION ADDRESS"))
	}
	rand.Seed(time.Now().UnixNano())
	options, err := config.ReadConfig(os.Args[1])
	must(err)
	app, handler := assembled(options)

	ended := make(chan error, 1)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	go func() { ended <- http.ListenAndServe(os.Args[2], handler) }()
	select {
	case <-asked:
	case err = <-ended:
	}
	app.Close()
	must(err)
}

// The database as text, or a new database of that.
func turned(how string, words []string) error {
	flags := flag.NewFlagSet(how, flag.ExitOnError)
	database, text := flags.String("dbfile", "", "the database"), flags.String("jsonfile", "", "the text")
	flags.Parse(words)
	ways := map[string]func(string, string) error{"export": glusterfs.DbDump, "import": glusterfs.DbCreate}
	if way, isKnown := ways[how]; isKnown {
		return way(*text, *database)
	}
	return fmt.Errorf("db %s is not known", how)
}

func assembled(options *config.Config) (*glusterfs.App, http.Handler) {
	glusterfs.MonitorGlusterNodes = !options.GlusterFS.DisableMonitorGlusterNodes
	glusterfs.EnableBackgroundCleaner = !options.GlusterFS.DisableBackgroundCleaner
	app, err := glusterfs.NewApp(options.GlusterFS)
	must(err)
	must(app.ServerReset())

	routes := mux.NewRouter().StrictSlash(true)
	must(app.SetRoutes(routes))
	chain := negroni.New(negroni.NewRecovery(), negroni.NewLogger())
	auth := middleware.NewJwtAuth(&options.JwtConfig)
	if !options.AuthEnabled || auth == nil {
		must(fmt.Errorf("the configuration has no keys, or does not ask for them"))
	}
	chain.Use(auth)
	chain.UseFunc(app.Auth)
	state := admin.New()
	chain.Use(state)
	state.SetRoutes(routes)
	must(state.SetString(options.DefaultState))
	chain.UseHandler(routes)

	all := mux.NewRouter()
	all.Methods("GET").Path("/hello").HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		fmt.Fprint(w, "Hello from Heketi")
	})
	all.NewRoute().Handler(chain)
	return app, all
}
