#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that running and testing for real need: those that are missing, and nothing else.
# Services are not started. Exits 3, naming what is missing, when it may not install. Arguments are more packages.
set -euo pipefail

wanted=(
    nfs-ganesha nfs-ganesha-vfs dbus libnfs-utils nfs-common # the NFS server, its bus, and clients without a kernel mount
    btrfs-progs e2fsprogs util-linux                         # pools in a sparse image
    user-mode-linux busybox-static dropbear-bin              # machines that mount shares, booted as plain processes
    openssh-client openssh-server sudo                       # machines that are logged in to by SSH
    iproute2 nftables kmod procps systemd                    # how those machines are reached, and what runs on them
    python3-minimal python3.11-venv                          # of the machine that Abaca is installed on
    strace                                                   # system calls that fail when a test wants it
    postgresql                                               # the database at scale
    qemu-system-x86 qemu-system-common                       # guests of hypervisors, and virtiofsd
    dnf zypper rpm createrepo-c                              # package managers of other distributions' families
    rabbitmq-server                                          # the message bus of a cloud, for events
    chromium chromium-driver fonts-dejavu-core               # the browser that opens pages
    glusterfs-server glusterfs-client xfsprogs openssl       # nodes of GlusterFS, and what mounts their volumes
    nfs-ganesha-gluster                                      # the NFS server of such volumes
)
wanted+=("$@")
# What has no package is built (heketi_build/); any Go will do.
command -v go >/dev/null || [ -x /usr/local/go/bin/go ] || wanted+=(golang-go)

# The kernel of QEMU's guests is only unpacked: an installed one would be this machine's.
kernel=/var/cache/abaca-lab/cloud-kernel
look() { # what is missing, into `missing`; ends here where nothing is
    missing=()
    local package state
    for package in "${wanted[@]}"; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || missing+=("$package")
    done
    [ -e "$kernel/complete" ] || missing+=(linux-image-cloud-amd64)
    [ ${#missing[@]} -gt 0 ] || exit 0
}
look

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "These Debian packages are missing and only root can install them: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 3
fi

# One at a time, of all clones on this machine: two would take each other's policy for the machine's own.
mkdir -p /var/cache/abaca-lab
exec {turn}>/var/cache/abaca-lab/turn
flock "$turn"
look
echo "Installing the Debian packages that are missing: ${missing[*]}"

# A policy that answers 101 keeps packages from starting their services; the machine's own policy comes back at the end.
policy=/usr/sbin/policy-rc.d
kept=""
if [ -e "$policy" ]; then
    kept=$(mktemp)
    cp -p "$policy" "$kept"
fi
log=$(mktemp)
restore() {
    if [ -n "$kept" ]; then mv "$kept" "$policy"; else rm -f "$policy"; fi
    rm -f "$log"
}
trap restore EXIT
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
quiet_apt() { apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1; }
fetch_kernel() {
    local place package
    place=$(mktemp -d) || return 1
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    (cd "$place" && apt-get -q download "$package") >"$log" 2>&1 || { rm -rf "$place"; return 1; }
    rm -rf "$kernel"
    mkdir -p "$kernel"
    dpkg-deb -x "$place"/*.deb "$kernel" && rm -rf "$place" "$kernel/usr" || return 1
    depmod -b "$kernel" "$(ls "$kernel/lib/modules")" && touch "$kernel/complete"
}
installed() {
    local wanted_now=()
    for package in "${missing[@]}"; do [ "$package" = linux-image-cloud-amd64 ] || wanted_now+=("$package"); done
    quiet_apt update || return 1
    [ ${#wanted_now[@]} -eq 0 ] || quiet_apt install --no-install-recommends "${wanted_now[@]}" || return 1
    [ -e "$kernel/complete" ] || fetch_kernel
}
if ! installed; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install ${missing[*]}; its last lines stand above." >&2
    exit 3
fi
