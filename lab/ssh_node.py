# SPDX-License-Identifier: Apache-2.0
"""Machines that one logs in to by SSH, as namespaces of this host: there in a moment, and with little memory.

Their own are the network, the processes, the mounts, and the directories /etc, /run and /mnt,
gone at the end. Everything else is this host's, and read-only there.
"""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Mapping
from typing import Literal, Self

from lab import client, fabric, guest, processes


def need() -> None:
    """Return if such machines can be made here; raises `processes.Missing` otherwise."""
    fabric.need()
    processes.need("sshd", package="openssh-server")
    processes.need("ssh-keygen", package="openssh-client")
    processes.need("dropbear", "dropbearconvert", package="dropbear-bin")


class SshNode(client.HostClient):
    """A machine on `network` with the SSH server of OpenSSH or dropbear; `ssh` says how to get in.

    Beside root there is the user `operator`, whom sudo asks for no password, and `guest`, whom it refuses. `programs`
    are scripts by name, which the machine finds before this host's.
    """

    def __init__(
        self,
        network: fabric.Fabric,
        name: str = "node",
        server: Literal["openssh", "dropbear"] = "openssh",
        programs: Mapping[str, str] | None = None,
    ) -> None:
        need()
        super().__init__(network, name)
        self.server = server
        self._programs = dict(programs or {})
        self._own = network.run.path(f"{network.bridge}-{name}")
        self.ssh = self._make_keys()

    def start(self, timeout_s: float = 60.0) -> Self:
        """Return when one can log in."""
        super().start(timeout_s)
        processes.wait_for_port(self.ipv4, self.ssh.port, timeout_s)
        return self

    def freeze(self) -> None:
        """Stop the SSH server without ending it: connections are accepted and nobody answers."""
        processes.freeze(self._inside)

    def thaw(self) -> None:
        """Let the SSH server go on."""
        processes.thaw(self._inside)

    def first_process(self) -> str:
        """Return the script that makes the directories its own, then is the SSH server."""
        own = shlex.quote(str(self._own))
        # Read-only first: whatever is unmounted or mistaken in there, this host's files stay as they are.
        return f"""set -e
mkdir -p {own}/over
mount -t tmpfs tmpfs {own}/over
awk '{{print $5}}' /proc/self/mountinfo | grep -vE '^/(proc|dev|sys)(/|$)' | grep -v '^{own}/over$' |
    while read -r point; do
        # Gone meanwhile: whoever removes the directory below a mount takes the mount away here too.
        mount -o remount,bind,ro "$point" || ! grep -qF " $point " /proc/self/mountinfo || exit 1
    done
mkdir {own}/over/upper {own}/over/work
mount -t overlay overlay -o lowerdir=/etc,upperdir={own}/over/upper,workdir={own}/over/work /etc
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/lock /run/keys/root/.ssh
cp {own}/authorized_keys /run/keys/authorized_keys
cp {own}/authorized_keys /run/keys/root/.ssh/
chmod 700 /run/keys/root /run/keys/root/.ssh
# Nobody answers for names here: without a server, who asks for them does not wait for one.
rm -f /etc/fstab /etc/resolv.conf
: > /etc/fstab
: > /etc/resolv.conf
echo 'operator:*:4321:4321::/tmp:/bin/sh' >> /etc/passwd
echo 'guest:*:4322:4322::/tmp:/bin/sh' >> /etc/passwd
sed -i 's|^root:\\([^:]*\\):0:0:[^:]*:[^:]*:|root:\\1:0:0:root:/run/keys/root:|' /etc/passwd
mkdir -p /etc/sudoers.d
echo 'operator ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/operator
chmod 440 /etc/sudoers.d/operator
{self.own_files(own)}
mount -t tmpfs tmpfs /mnt
{self._own_programs()}
exec {self._server_command(own)}"""

    def own_files(self, own: str) -> str:
        """Return what a kind of machine does before it can be logged in to; `own`/over is memory of its own."""
        return ""

    def _server_command(self, own: str) -> str:
        if self.server == "dropbear":
            return f"dropbear -F -E -s -p 22 -r {own}/dropbear_host_key"
        options = ("UsePAM no", "StrictModes no", "PermitRootLogin prohibit-password", "PasswordAuthentication no")
        words = " ".join(f"-o {shlex.quote(one)}" for one in options)
        keys = "-o 'AuthorizedKeysFile /run/keys/authorized_keys'"
        return f"{processes.find('sshd')} -D -e -f /dev/null -h {own}/host_key {keys} {words} -o 'MaxStartups 200'"

    def _own_programs(self) -> str:
        if not self._programs:
            return ""
        lines = [
            "mkdir -p /run/own/upper /run/own/work",
            "mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=/run/own/upper,workdir=/run/own/work /usr/sbin",
        ]
        for name, script in self._programs.items():
            place = shlex.quote(f"/usr/sbin/{name}")
            lines += [f"printf %s {shlex.quote(script)} > {place}", f"chmod 755 {place}"]
        return "\n".join(lines)

    def _make_keys(self) -> guest.Ssh:
        for name in ("host_key", "client_key"):
            (self._own / name).unlink(missing_ok=True)
            processes.command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self._own / name)])
        public = {name: pathlib.Path(self._own / f"{name}.pub").read_text() for name in ("host_key", "client_key")}
        (self._own / "authorized_keys").write_text(public["client_key"])
        if self.server == "dropbear":
            key = str(self._own / "host_key")
            processes.command(["dropbearconvert", "openssh", "dropbear", key, str(self._own / "dropbear_host_key")])
        host_key = " ".join(public["host_key"].split()[:2])
        return guest.Ssh(self.ipv4, 22, "root", self._own / "client_key", host_key)
