# SPDX-License-Identifier: Apache-2.0
"""Everything at once, as operators and users have it: `abaca run` with real back ends, and a machine that mounts.

A `World` is started once for a module. It asks through the API, and looks behind it only to compare what the back end
holds with what the database says.
"""

import contextlib
import itertools
import json
import os
import re
import signal
from pathlib import Path

from abaca.drivers.clients import mounts
from abaca.drivers.exports.bus import Bus, Dead
from lab import caller, processes, runs, service
from tests.conftest import wait_until

GRACE_S = 10
"""Grace period of the NFS server: how long its clients wait at most once it was started again."""
PROJECT = "00000000000000000000000000000000"


class World:
    """Abaca on a directory, port and NFS port of its own, with an administrator who asks.

    `sections` go over those given here: one back end `local` that exports on the addresses of `network`, if there is
    one, and on loopback otherwise.
    """

    def __init__(self, run: runs.Run, sections=None, *, network=None, directory=None):
        self.run = run
        self.network = network
        self.nfs_port = processes.free_port("::")
        addresses = f"{network.host_ipv4}, {network.host_ipv6}" if network else "127.0.0.1"
        merged = {
            "DEFAULT": {
                "host": "here",
                "enabled_share_backends": "local",
                "enabled_share_protocols": "NFS",
                "default_share_type": "default",
            },
            "local": {
                "driver": "local",
                "pool_size_gib": 20,
                "export_ips": addresses,
                "ganesha_port": self.nfs_port,
                "grace_s": GRACE_S,
            },
        }
        for section, options in (sections or {}).items():
            merged.setdefault(section, {}).update(options)
        if "local" not in merged["DEFAULT"]["enabled_share_backends"]:
            del merged["local"]
        self.abaca = service.Service(run, merged, directory=directory)
        self.user = caller.Caller(self.abaca.url, {})
        self.local = LocalPlace(self.abaca.directory / "state" / "backends" / "local")

    def start(self):
        """Started, with a share type, and pools to choose from."""
        self.abaca.start()
        return self.ready()

    def ready(self):
        """The type is made and the back ends have reported."""
        caller.ensure_type(self.user, "default")
        caller.wait_for_pools(self.user)
        return self

    # ---------------------------------------------------------------- as a user

    def post_share(self, size=1, **more):
        """The id of a share that was asked for; it may not be there yet."""
        return self.user.post("/shares", "share", share_proto="NFS", size=size, **more)["id"]

    def share(self, size=1, **more):
        """The id of a share that is available."""
        share_id = self.post_share(size, **more)
        self.user.wait(f"/shares/{share_id}", "available")
        return share_id

    def allow(self, share_id, to, level="rw"):
        """The id of an access rule that is in force."""
        words = {"access_type": "ip", "access_to": to, "access_level": level}
        rule = self.user.post(f"/shares/{share_id}/action", "allow_access", **words)
        self.user.wait(f"/share-access-rules/{rule['id']}", "active", key="state")
        return rule["id"]

    def change(self, rule_id, level):
        """The rule has another level, in force."""
        self.user.call("PUT", f"/share-access-rules/{rule_id}", {"update_access": {"access_level": level}})
        self.user.wait(f"/share-access-rules/{rule_id}", "active", key="state")

    def deny(self, share_id, rule_id):
        """The rule is gone."""
        self.user.call("POST", f"/shares/{share_id}/action", {"deny_access": {"access_id": rule_id}})
        self.user.wait_gone(f"/share-access-rules/{rule_id}")

    def post_delete(self, share_id):
        """The share is asked to go."""
        self.user.call("DELETE", f"/shares/{share_id}")

    def delete(self, *share_ids):
        """The shares are gone."""
        for share_id in share_ids:
            self.post_delete(share_id)
        for share_id in share_ids:
            self.user.wait_gone(f"/shares/{share_id}")

    def settled(self, share_id, timeout_s=60.0):
        """The share as it is once nothing more happens to it."""

        def settled():
            found = self.user.get(f"/shares/{share_id}")
            return found if found["status"] in ("available", "error", "error_deleting") else None

        return wait_until(settled, timeout_s, 0.1)

    def messages(self, share_id):
        """What its user was told of it, the newest first: pairs of detail id and text."""
        found = self.user.get(f"/messages?resource_id={share_id}")
        return [(message["detail_id"], message["user_message"]) for message in found]

    def instances(self):
        """The status of every share instance that the database knows, by id."""
        return {row["id"]: row["status"] for row in self.user.get("/share_instances")}

    def used(self):
        """What the project has used of its quota: shares and gigabytes."""
        found = self.user.get(f"/quota-sets/{PROJECT}/detail")
        return found["shares"]["in_use"], found["gigabytes"]["in_use"]

    def locations(self, share_id):
        """Where it can be mounted, the preferred place first."""
        found = self.user.get(f"/shares/{share_id}/export_locations")
        return [row["path"] for row in sorted(found, key=lambda row: not row["preferred"])]

    def mount(self, machine, location, place):
        """The machine has it mounted, by NFS 4.2."""
        machine.check(["mkdir", "-p", place])
        machine.check(["mount", "-t", "nfs4", "-o", f"vers=4.2,port={self.nfs_port}", location, place])

    # ---------------------------------------------------------------- as an operator

    def command(self, *words):
        """What `abaca WORDS --json` prints."""
        return json.loads(self.abaca.command(*words, "--json"))

    def ensure(self, backend="local"):
        """The shares of the back end are ensured, by whatever is under way or anew; how many were found how."""
        said = self.abaca.command("backend", "ensure", f"here@{backend}", "--watch").splitlines()
        pairs = (line.split() for line in said)
        return {words[0]: int(words[1]) for words in pairs if len(words) == 2 and words[1].isdigit()}

    def move_exports(self, address):
        """The shares of `local` are exported on another address of the network, which is added, and nowhere else."""
        self.network.add_address(address)
        self.abaca.configure("local", export_ips=address)
        self.abaca.stop()
        self.abaca.start()
        self.ensure()

    def backends(self):
        """What `abaca backend list` shows, by the back end's name."""
        return {row["host"].partition("@")[2]: row for row in self.command("backend", "list")}

    def operations(self, share_id):
        """All operations about a share, the newest first."""
        return self.command("operation", "list", "--all", "--resource", share_id)

    def log(self):
        """Everything that was logged so far."""
        return (self.run.directory / f"{self.abaca.directory.name}.log").read_text()

    def compare(self):
        """The back end holds exactly the instances that the database knows: no more, no less, each served."""
        known = set(self.instances())
        assert self.local.held() == known
        assert self.local.mounted() == known
        assert self.local.exported() == known
        assert self.local.live() == known
        assert self.local.unfinished() == set()

    def is_idle(self):
        """Whether nothing waits and nothing runs."""
        return self.command("operation", "list") == []


class LocalPlace:
    """The `local` back end's directory, looked at from behind; instances are sets of ids."""

    def __init__(self, directory: Path):
        self.directory = directory

    def pid(self, daemon="ganesha"):
        """The process of `ganesha` or of its `bus`."""
        return int((self.directory / "ganesha" / f"{daemon}.pid").read_text())

    def signal(self, daemon, number):
        """Send it, wait for the end of that process, and return its pid; an OSError when there is none."""
        pid = self.pid(daemon)
        if str(self.directory) not in Path(f"/proc/{pid}/cmdline").read_text():
            raise ProcessLookupError(pid)
        os.kill(pid, number)
        wait_until(lambda: not processes.alive(pid))
        return pid

    def kill_ganesha(self):
        return self.signal("ganesha", signal.SIGKILL)

    def take_down(self):
        """Unmount everything and free the loop device, behind the back of everybody."""
        for place in mounts.below(self.directory):
            processes.command(["umount", str(place)])
        for device in self.loops():
            processes.command(["losetup", "--detach", device])

    def held(self):
        """Those that have a subvolume."""
        return {path.name for path in (self.directory / "pool" / "shares").iterdir()}

    def unfinished(self):
        """Subvolumes that are being made, and drafts of exports."""
        places = (self.directory / "pool" / "work", self.directory / "ganesha" / "drafts")
        return {path.name for place in places for path in place.iterdir()} - {"next_export_id"}

    def mounted(self):
        """Those that are mounted on their own; nothing but mount points lies beside them."""
        places = {path.name for path in (self.directory / "shares").iterdir()}
        mounted = {path.name for path in (self.directory / "shares").iterdir() if path.is_mount()}
        assert places == mounted
        return mounted

    def exported(self):
        """Those that have an export file."""
        names = (path.name for path in (self.directory / "ganesha" / "exports").iterdir())
        return {name.partition("-shares-")[2].removesuffix(".conf") for name in names}

    def live(self):
        """Those that the NFS server exports, by its own answer; None while it does not answer."""
        with contextlib.suppress(Dead), contextlib.closing(Bus(self.directory / "ganesha" / "bus.sock")) as bus:
            return {Path(path).name for path in bus.paths().values() if path.startswith(str(self.directory))}
        return None

    def clients(self):
        """Whom the NFS server lets in, by instance: sets of network and level."""
        with contextlib.closing(Bus(self.directory / "ganesha" / "bus.sock")) as bus:
            shown = [bus.show(export_id) for export_id, path in bus.paths().items() if path.startswith("/")]
        return {Path(one.path).name: set(one.clients) for one in shown if one.path.startswith(str(self.directory))}

    def forget_clients(self, instance_id):
        """Let the NFS server shut everybody out of an export, behind the back of everybody."""
        (file,) = (self.directory / "ganesha" / "exports").glob(f"*-shares-{instance_id}.conf")
        text = re.sub(r"  CLIENT \{.*?\n  \}\n", "", file.read_text(), flags=re.DOTALL)
        draft = self.directory / "ganesha" / "tampered.conf"
        draft.write_text(text)
        with contextlib.closing(Bus(self.directory / "ganesha" / "bus.sock")) as bus:
            bus.update(draft, int(file.name[:5]))
        draft.unlink()
        assert self.clients()[instance_id] == set()

    def limits(self):
        """How many subvolumes are accounted for; the kernel forgets deleted ones after a commit."""
        self.commit()
        said = processes.command(["btrfs", "qgroup", "show", "--raw", str(self.directory / "pool")])
        return sum(line.startswith("0/") and not line.startswith("0/5 ") for line in said.splitlines())

    def commit(self):
        """Have everything on disk, and deleted subvolumes cleaned away soon; a LabError when that fails."""
        processes.command(["btrfs", "filesystem", "sync", str(self.directory / "pool")])

    def loops(self):
        """The loop devices whose file lies here."""
        said = processes.command(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"])
        return [line.split()[0] for line in said.splitlines() if str(self.directory) in line]

    def data(self, instance_id):
        """The directory that clients see."""
        return self.directory / "shares" / instance_id


def fill(file: Path):
    """Let a new file take all the space that is left."""
    with file.open("xb", buffering=0) as handle:
        for size in (1 << 24, 1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    handle.write(b"x" * size)


class Writer:
    """A program on a machine: it appends a numbered line, has it on the server's disk, notes the time, and again.

    It opens the file for each line, or `keeps_open` what it has.
    """

    _WRITE = """
        rm -f {notes}.*
        (
            {first}
            n=0
            while [ ! -e {notes}.stop ]; do
                n=$((n + 1))
                echo $n | dd bs=64 conv=fsync {to} 2>> {notes}.said || echo $n >> {notes}.failed
                read -r up rest < /proc/uptime
                echo $n $up >> {notes}.times
            done
            echo > {notes}.ended
        ) > /dev/null 2>&1 &
    """

    def __init__(self, machine, file, *, keeps_open=False):
        self.machine = machine
        self.file = file
        self.notes = f"/tmp/{Path(file).name}"
        first, to = (f"exec 9>> {file}", ">&9") if keeps_open else ("", f">> {file}")
        self.machine.script(self._WRITE.format(notes=self.notes, first=first, to=to))
        self.wait_for_more(10)

    def count(self):
        """How many writes came back so far."""
        return len(self.times())

    def times(self):
        """When each write came back, in seconds of the machine's clock."""
        lines = self.machine.script(f"cat {self.notes}.times").stdout.splitlines()
        return [float(line.split()[1]) for line in lines]

    def wait_for_more(self, number, timeout_s=60.0):
        """So many writes more have come back than at the call."""
        before = self.count()
        wait_until(lambda: self.count() >= before + number, timeout_s, 0.2)

    def stop(self):
        """It ends, and has closed its file."""
        self.machine.script(f": > {self.notes}.stop")
        wait_until(lambda: self.machine.run(["test", "-e", f"{self.notes}.ended"]).code == 0, every_s=0.2)

    def check(self):
        """Fails when a write failed, or one is missing in the file."""
        failed = self.machine.script(f"cat {self.notes}.failed").stdout.split()
        assert failed == [], self.machine.script(f"grep -v records {self.notes}.said").stdout
        written = self.machine.check(["cat", self.file]).split()
        assert written == [str(number) for number in range(1, self.count() + 1)]

    def finish(self):
        """End it, and check; the longest time between two writes."""
        self.wait_for_more(10)
        times = self.times()
        self.stop()
        self.check()
        return max(later - earlier for earlier, later in itertools.pairwise(times))
