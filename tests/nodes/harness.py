# SPDX-License-Identifier: Apache-2.0
"""One harness for each kind of machines: how the contract tests get them, and what somebody on a machine does there.

All paths that tests use lie below /mnt, which is empty when a test begins.
"""

import contextlib
import tempfile
from pathlib import Path

import msgspec
import pytest

from abaca.nodes import mounts
from abaca.nodes.contract import Holder
from abaca.nodes.rehearsal import Rehearsal
from abaca.nodes.shell import Limits
from lab import fabric, runs
from lab.ssh_node import SshNode
from tests.nodes.machines import Certified, Login, Memory, login_of, wanted

OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


class Refused(Memory):
    """Options that no kernel takes."""

    protocols = ("REFUSED",)

    def options(self, mount):
        return (*super().options(mount), "nonsense=1")


class Hung(Memory):
    """Mounting never ends."""

    protocols = ("HUNG",)
    fstype = "hung"


class Kind:
    """`nodes` and the way into one of its machines, `login`; a test may ask for further ones."""

    name: str
    nodes: object
    login: Login

    def stranger(self):
        """The same machine, known by another host key."""
        return msgspec.structs.replace(self.login, host_key=OTHER_KEY)


class PaperHarness(Kind):
    """Machines on paper."""

    name, marks = "rehearsal", ()

    def __init__(self):
        self._place = tempfile.TemporaryDirectory(prefix="abaca-paper-")
        self._disabled = []
        self.nodes = self.more_nodes()
        self.login = Login(host="10.0.0.7", host_key="ssh-ed25519 AAAA", key="file:/nowhere")
        self.clean()

    def more_nodes(self):
        """As another worker has them."""
        return Rehearsal(Path(self._place.name) / "nodes.sqlite", [Memory(), Certified()])

    def clean(self):
        self.nodes.scrap(self.login.host)
        self.nodes.show_key(self.login.host, self.login.host_key)
        for source in self._disabled:
            self.nodes.disable(source, "")

    def refused(self, mount):
        self._disabled.append(mount.source)
        self.nodes.disable(mount.source, "bad option; no such export")
        return mount

    def hung(self, mount):
        self._disabled.append(mount.source)
        self.nodes.disable(mount.source, "no answer", hangs=True)
        return mount

    def hold(self, point):
        who = Holder(7, "sleep 1000")
        self.nodes.hold(self.login.host, point, who)
        return who

    def let_go(self, point):
        self.nodes.hold(self.login.host, point, None)

    def occupy(self, point, source):
        self.nodes.occupy(self.login.host, point, source)

    def unmount_by_hand(self, point):
        self.nodes.forget(self.login.host, point)

    def forget_after_reboot(self, point):
        self.nodes.unkeep(self.login.host, point)

    def keep_by_hand(self, point, source):
        with self.nodes._sheet(self.login.host) as (sheet, _):
            sheet.kept[point] = [LINE.format(source=source, point=point)]

    def put(self, path, kind):
        self.nodes.put(self.login.host, path, kind)

    def paths(self):
        return list(self.nodes.tree(self.login.host))

    def kept(self):
        with self.nodes._sheet(self.login.host) as (sheet, _):
            return [line for lines in sheet.kept.values() for line in lines]

    def shown(self):
        with self.nodes._sheet(self.login.host) as (sheet, _):
            return (sheet.identity, *(f"{one}\n" for one in sheet.certificates)) if sheet.identity else None

    def reboot(self):
        self.nodes.reboot(self.login.host)

    @contextlib.contextmanager
    def away(self):
        self.nodes.take_away(self.login.host)
        yield
        self.nodes.bring_back(self.login.host)

    def close(self):
        self.nodes.close()
        self._place.cleanup()


LINE = "{source} {point} tmpfs defaults 0 0"
CLEAN = """
for round in 1 2 3; do
    awk '$2 ~ "^/mnt/" {print $2}' /proc/mounts | while read -r point; do umount -l "$(printf '%b' "$point")"; done
done
rm -rf --one-file-system /mnt/* /etc/ssl/abaca
rm -f /etc/ssl/glusterfs.* /usr/lib/ssl/glusterfs.*
: > /etc/fstab
"""
SHOWN = """
for place in /etc/ssl /usr/lib/ssl; do
    [ ! -L $place/glusterfs.key ] || [ -s $place/glusterfs.key ] || echo "no key below $place"
done
[ -e /etc/ssl/abaca ] || exit 0
[ "$(stat -c %a /etc/ssl/abaca/key)" = 600 ] || echo "others read the key"
for part in /etc/ssl/abaca/name /usr/lib/ssl/glusterfs.pem /etc/ssl/glusterfs.ca; do
    [ ! -e $part ] || { cat $part; echo abaca-part; }
done
"""
HUNG = """
mkdir -p /run/over/upper /run/over/work
mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=/run/over/upper,workdir=/run/over/work /usr/sbin
printf '#!/bin/sh\\nexec sleep 1000\\n' > /usr/sbin/mount.hung
chmod 755 /usr/sbin/mount.hung
mkdir -p /run/openssl/upper /run/openssl/work
mount -t overlay overlay -o lowerdir=/usr/lib/ssl,upperdir=/run/openssl/upper,workdir=/run/openssl/work /usr/lib/ssl
"""


class SshHarness(Kind):
    """A machine by OpenSSH, with a file system that needs no server."""

    name, marks = "ssh", (pytest.mark.system,)

    def __init__(self):
        self._run = runs.Run()
        try:
            self.machine = SshNode(fabric.Fabric(self._run), "contract").start()
            self.machine.script(HUNG)
        except BaseException:
            self._run.close()
            raise
        self.nodes = self.more_nodes()
        self.login = login_of(self.machine)

    def more_nodes(self):
        return mounts.Nodes([Memory(), Certified(), Refused(), Hung()], limits=Limits(connect_s=10, command_s=10))

    def clean(self):
        self.machine.script(CLEAN)

    def refused(self, mount):
        return msgspec.structs.replace(mount, protocol="REFUSED")

    def hung(self, mount):
        return msgspec.structs.replace(mount, protocol="HUNG")

    def hold(self, point):
        pid = self.machine.script(f"cd '{point}' && (exec sleep 1000) > /dev/null 2>&1 & echo $!").stdout.strip()
        return Holder(int(pid), "sleep 1000")

    def let_go(self, point):
        self.machine.script(
            f"for one in /proc/[0-9]*; do [ \"$(readlink $one/cwd)\" != '{point}' ] || kill -9 ${{one#/proc/}}; done"
        )

    def occupy(self, point, source):
        self.machine.check(["mkdir", "-p", point])
        self.machine.check(["mount", "-t", "tmpfs", source, point])

    def unmount_by_hand(self, point):
        self.machine.check(["umount", point])

    def forget_after_reboot(self, point):
        self.machine.script(": > /etc/fstab")

    def keep_by_hand(self, point, source):
        self.machine.script(f"echo '{LINE.format(source=source, point=point)}' >> /etc/fstab")

    def put(self, path, kind):
        make = {
            "": "[ ! -d {0} ] || rmdir {0}; rm -f {0}",
            "directory": "mkdir -p {0}",
            "file": "mkdir -p $(dirname {0}); touch {0}",
            "link /etc": "ln -s /etc {0}",
        }
        self.machine.check(["sh", "-c", make[kind].format(path)])

    def paths(self):
        return sorted(self.machine.check(["find", "/mnt", "-mindepth", "1"]).splitlines())

    def kept(self):
        return self.machine.check(["cat", "/etc/fstab"]).splitlines()

    def shown(self):
        """As what it is known, its certificate and the authority's, where GlusterFS looks; None where nothing is."""
        found = self.machine.script(SHOWN).stdout
        if not found:
            return None
        name, *pems = found.split("abaca-part\n")[:-1]
        return (name.strip(), *pems)

    def reboot(self):
        """What a boot does: nothing is mounted any more, then what is kept is."""
        umount = "awk '$2 ~ \"^/mnt/\" {print $2}' /proc/mounts | tac | while read -r one; do umount -l $one; done"
        self.machine.check(["sh", "-c", f"{umount}; mount -a"])

    @contextlib.contextmanager
    def away(self):
        rules = (
            "table inet gone { chain in { type filter hook input priority 0; tcp dport 22 reject with tcp reset; }; }"
        )
        self.machine.check(["nft", rules])
        yield
        self.machine.check(["nft", "delete table inet gone"])

    def close(self):
        self.nodes.close()
        self.machine.stop()
        self._run.close()


HARNESSES = {one.name: one for one in (PaperHarness, SshHarness)}
__all__ = ["HARNESSES", "wanted"]
