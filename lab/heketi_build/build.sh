#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Heketi that tests of GlusterFS talk to, and the heketi-cli that its bench compares with, once for each state
# of this folder, where root may keep them.
# Its release 9.0.0 comes from the Go module proxy, every other module in the version that go.mod names and go.sum proves.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
place=/var/cache/abaca-lab/heketi/$(cat "$here"/* | sha256sum | cut -c 1-16)
[ -x "$place/heketi" ] && [ -x "$place/heketi-cli" ] && exit 0
[ "$(id -u)" -eq 0 ] || exit 0
echo "Building Heketi for the tests of GlusterFS"
PATH=$PATH:/usr/local/go/bin
release=github.com/heketi/heketi

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cp "$here"/main.go "$here"/go.mod "$here"/go.sum "$work/"
cd "$work"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0
timeout 120 go mod download "$release@v9.0.0+incompatible"
cp -r "$(go env GOMODCACHE)/$release@v9.0.0+incompatible" heketi
chmod -R u+w heketi

# Without Kubernetes, of which it would want all that there was in 2017.
cp "$here/kubeexec.go.txt" heketi/executors/kubeexec/kubeexec.go
rm heketi/pkg/kubernetes/*.go
cp "$here/kubernetes.go.txt" heketi/pkg/kubernetes/backupdb.go
rm heketi/client/cli/go/cmds/heketi_storage.go
# Of 2018 too: an SSH client has to say by now how it knows hosts. This one takes any, as it did then.
sed -i 's/ClientConfig{$/&HostKeyCallback: ssh.InsecureIgnoreHostKey(),/' heketi/pkg/remoteexec/ssh/ssh.go
echo "module $release" > heketi/go.mod
go mod edit -replace "$release=./heketi"

mkdir built
timeout 900 go build -trimpath -ldflags "-s -w" -o built/heketi .
timeout 900 go build -trimpath -ldflags "-s -w" -o built/heketi-cli "$release/client/cli/go"
mkdir -p "$place"
# The server is put there last: where it is, heketi-cli is too.
for program in heketi-cli heketi; do
    cp "built/$program" "$place/$program.$$"
    mv "$place/$program.$$" "$place/$program"
done
