# SPDX-License-Identifier: Apache-2.0
"""Machines of other families than this host's: with the real package manager of each, and a repository of their own.

The repository holds two small packages: `abaca-client`, which brings a program of that name, and `abaca-slow`, whose
installation goes on until the file /run/go appears.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pathlib
from collections.abc import Iterator

from lab import fabric, processes, ssh_node

PORT = 8079
CLIENT, SLOW = "abaca-client", "abaca-slow"

_PROGRAM = "#!/bin/sh\necho the client\n"
_CONTROL = """Package: {name}
Version: 1.0
Architecture: all
Maintainer: The lab <lab@example.org>
Description: A package of the lab
"""
_WAIT = "#!/bin/sh\n: > /run/slow\nwhile [ ! -e /run/go ]; do sleep 0.1; done\n"
_SPEC = """%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
Name: {client}
Version: 1.0
Release: 1
Summary: A package of the lab
License: Apache-2.0
BuildArch: noarch
AutoReqProv: no
%description
A program.
%package -n {slow}
Summary: A package whose installation takes as long as one likes
%description -n {slow}
Nothing.
%install
mkdir -p %{{buildroot}}/usr/sbin
printf '{program}' > %{{buildroot}}/usr/sbin/{client}
%pre -n {slow} -p <lua>
io.open("/run/slow", "w"):close()
while not posix.stat("/run/go") do posix.sleep(1) end
%files
%attr(755, root, root) /usr/sbin/{client}
%files -n {slow}
"""
_APT = f"""
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
echo 'deb [trusted=yes] http://127.0.0.1:{PORT}/ ./' > /etc/apt/sources.list
echo 'Acquire::http::Proxy::127.0.0.1 "DIRECT"; Acquire::Retries "0";' > /etc/apt/apt.conf.d/99lab
rm -rf /var/lib/apt/lists
"""
_RPM = f"""
mkdir -p /etc/yum.repos.d /etc/zypp/repos.d /etc/rpm
echo '%_dbpath /var/lib/rpm' > /etc/rpm/macros
for place in /etc/yum.repos.d /etc/zypp/repos.d; do
    rm -f $place/*
    echo '[lab]
name=lab
baseurl=http://127.0.0.1:{PORT}/
enabled=1
gpgcheck=0
autorefresh=1' > $place/lab.repo
done
"""


@dataclasses.dataclass(frozen=True)
class Family:
    """What makes a machine one of a family: its os-release, its package manager, and how that is set up."""

    os_release: str
    manager: str
    set_up: str
    is_installed: str = f"rpm -q {CLIENT}"
    remove: str = f"rpm -e {CLIENT}; rpm -e {SLOW}; rm -rf /var/cache/dnf /var/cache/zypp"


FAMILIES = {
    "apt": Family(
        "ID=debian",
        "apt-get",
        _APT,
        f"dpkg -s {CLIENT}",
        f"dpkg --purge {CLIENT} {SLOW}; apt-get clean; rm -rf /var/lib/apt/lists",
    ),
    "dnf": Family("ID=fedora", "dnf", _RPM),
    "yum": Family('ID=centos\\nID_LIKE="rhel fedora"', "yum", f"{_RPM}\nmv /usr/bin/dnf /usr/bin/yum"),
    "zypper": Family('ID="opensuse-leap"\\nID_LIKE="suse opensuse"', "zypper", _RPM),
}


def need() -> None:
    """Return if such machines can be made here; raises `processes.Missing` otherwise."""
    ssh_node.need()
    processes.need("dpkg-deb", "apt-get", package="dpkg apt")
    for program, package in {
        "dnf": "dnf",
        "zypper": "zypper",
        "rpmbuild": "rpm",
        "createrepo_c": "createrepo-c",
    }.items():
        processes.need(program, package=package)


class FamilyNode(ssh_node.SshNode):
    """A machine of one of `FAMILIES`; /usr and /var are its own too, and this host's at the start."""

    def __init__(self, network: fabric.Fabric, name: str) -> None:
        need()
        super().__init__(network, name)
        self.family = FAMILIES[name]
        self.repository = network.run.path(f"{network.bridge}-{name}", "repository")
        (_debs if name == "apt" else _rpms)(self.repository)

    def own_files(self, own: str) -> str:
        """Return the commands that make it one of its family."""
        return f"""
for place in usr var; do
    mkdir {own}/over/$place {own}/over/$place.work
    mount -t overlay overlay -o lowerdir=/$place,upperdir={own}/over/$place,workdir={own}/over/$place.work /$place
done
rm -f /etc/os-release
printf '{self.family.os_release}\\n' > /etc/os-release
{self.family.set_up}
# Package managers refuse a root that is read-only: it is memory, with what was in the old one.
mkdir {own}/over/root
mount -t tmpfs tmpfs {own}/over/root
for place in /*; do
    if [ -L $place ]; then
        cp -P $place {own}/over/root
    elif [ -d $place ]; then
        mkdir {own}/over/root$place
        case $place in /dev | /proc | /sys) bind=rbind ;; *) bind=bind ;; esac
        mount --$bind $place {own}/over/root$place
    fi
done
cd {own}/over/root
mkdir old
pivot_root . old
cd /
umount -l /old
rmdir /old
"""

    def serve(self) -> None:
        """The repository can be reached."""
        self.script(
            f"cd {self.repository} && exec python3 -m http.server --bind 127.0.0.1 {PORT} > /dev/null 2>&1 &"
            " echo $! > /run/repository.pid"
        )
        processes.wait_until(self._answers, 10.0, "the repository")

    @contextlib.contextmanager
    def without_repository(self) -> Iterator[None]:
        """Meanwhile the repository is away."""
        self.script("kill -9 $(cat /run/repository.pid)")
        processes.wait_until(lambda: not self._answers(), 10.0, "the end of the repository")
        try:
            yield
        finally:
            self.serve()

    def _answers(self) -> bool:
        return self.run(["python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {PORT}))"]).code == 0


def _debs(place: pathlib.Path) -> None:
    index = []
    for name in (CLIENT, SLOW):
        tree = place.parent / name
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(_CONTROL.format(name=name))
        if name == SLOW:
            _script(tree / "DEBIAN/preinst", _WAIT)
        else:
            (tree / "usr/sbin").mkdir(parents=True)
            _script(tree / "usr/sbin" / name, _PROGRAM)
        deb = place / f"{name}.deb"
        processes.command(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(deb)])
        content = deb.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        index.append(f"{_CONTROL.format(name=name)}Filename: {deb.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    (place / "Packages").write_text("\n".join(index))


def _rpms(place: pathlib.Path) -> None:
    spec = place.parent / "lab.spec"
    spec.write_text(_SPEC.format(client=CLIENT, slow=SLOW, program=_PROGRAM.replace("\n", "\\n")))
    top = f"_topdir {place.parent / 'rpmbuild'}"
    processes.command(["rpmbuild", "-bb", "--quiet", "-D", top, "-D", f"_rpmdir {place}", str(spec)])
    processes.command(["createrepo_c", "--quiet", str(place)])


def _script(file: pathlib.Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)
