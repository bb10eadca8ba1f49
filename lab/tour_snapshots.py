# SPDX-License-Identifier: Apache-2.0
"""The scene of the tour in which a file is lost: a snapshot has it, a share made from that, and the share again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lab import caller, client, processes

_RESTORED = "/mnt/restored"
_BEFORE = "/mnt/before"
# Who is let in where there is no machine.
_ON_PAPER = "192.0.2.10"
_RULES_S = 60.0


class Restoring:
    """Takes a snapshot of one share, looks into it, makes another one from it, and takes the share back; by steps.

    `mounted` is where the machine, if there is one, has the share.
    """

    def __init__(self, user: caller.Caller, machine: client.Client | None, nfs_port: int, mounted: str) -> None:
        self._user = user
        self._machine = machine
        self._nfs_port = nfs_port
        self._mounted = mounted
        self._snapshot_id = ""
        self._checksum = ""

    def scene(self, share_id: Callable[[], str]) -> Iterator[tuple[str, Callable[[], str]]]:
        """What each step says and does, in order; `share_id` is asked when it is taken."""
        yield "a snapshot of the share is taken", lambda: self.take(share_id())
        if self._machine is not None:
            yield "the machine deletes what it wrote", self.lose
            yield "it mounts the snapshot, read-only, and reads there what it has deleted", self.look_into
        else:
            yield "an access rule lets one address into the snapshot", self.look_into
        yield "another share is made from the snapshot, and deleted again", self.clone
        yield "the share is taken back to its snapshot", lambda: self.go_back(share_id())

    def take(self, share_id: str) -> str:
        """A snapshot of the share."""
        snapshot = self._user.post("/snapshots", "snapshot", share_id=share_id, name="tour")
        self._snapshot_id = snapshot["id"]
        self._user.wait(f"/snapshots/{self._snapshot_id}", "available")
        return f"snapshot {self._snapshot_id}" + (", while it is in use" if self._machine else "")

    def lose(self) -> str:
        """The machine deletes what it wrote."""
        self._checksum = self._sum(self._mounted)
        self._check("sh", "-c", f"rm {self._mounted}/data && sync {self._mounted}")
        return f"{self._mounted}/data is gone"

    def look_into(self) -> str:
        """The snapshot lets the machine in, which mounts it and finds the file; then it lets nobody in any more."""
        path = f"/snapshots/{self._snapshot_id}"
        address = self._machine.ipv4 if self._machine else _ON_PAPER
        rule = self._user.post(f"{path}/action", "allow_access", access_type="ip", access_to=address)
        processes.wait_until(lambda: self._states(path) == ["active"], _RULES_S, f"{path} lets {address} in")
        found = self._user.get(f"{path}/export-locations")
        location = str(found[0]["path"])
        if self._machine is not None:
            self._see_before(location)
        self._user.call("POST", f"{path}/action", {"deny_access": {"access_id": rule["id"]}})
        processes.wait_until(lambda: self._states(path) == [], _RULES_S, f"{path} lets nobody in")
        return location

    def _states(self, path: str) -> list[str]:
        return [rule["state"] for rule in self._user.get(f"{path}/access-list")]

    def _see_before(self, location: str) -> None:
        machine = self._the_machine()
        self.mount(location, _BEFORE)
        self._see(_BEFORE)
        if machine.run(("touch", f"{_BEFORE}/new"), timeout_s=60.0).code == 0:
            raise processes.LabError("something could be written into a snapshot")
        self._check("umount", _BEFORE)

    def clone(self) -> str:
        """A share from the snapshot, which the machine looks at; then that goes again."""
        wish = {"share_proto": "NFS", "size": 3, "name": "restored", "snapshot_id": self._snapshot_id}
        made = self._user.post("/shares", "share", **wish)
        self._user.wait(f"/shares/{made['id']}", "available")
        said = f"share {made['id']}, of 3 GiB"
        if self._machine is not None:
            self._see_in(made["id"])
            said += ", with the file"
        self._user.call("DELETE", f"/shares/{made['id']}")
        self._user.wait_gone(f"/shares/{made['id']}")
        return said

    def _see_in(self, share_id: str) -> None:
        machine = self._the_machine()
        words = {"access_type": "ip", "access_to": machine.ipv4, "access_level": "ro"}
        rule = self._user.post(f"/shares/{share_id}/action", "allow_access", **words)
        self._user.wait(f"/share-access-rules/{rule['id']}", "active", key="state")
        found = self._user.get(f"/shares/{share_id}/export_locations")
        self.mount(str(found[0]["path"]), _RESTORED)
        self._see(_RESTORED)
        self._check("umount", _RESTORED)

    def go_back(self, share_id: str) -> str:
        """The share is what it was; the machine mounts it anew. Then the snapshot goes."""
        source = self._source() if self._machine else ""
        if source:
            self._check("umount", self._mounted)
        self._user.post(f"/shares/{share_id}/action", "revert", snapshot_id=self._snapshot_id)
        self._user.wait(f"/shares/{share_id}", "available")
        if source:
            self.mount(source, self._mounted)
            self._see(self._mounted)
        self._user.call("DELETE", f"/snapshots/{self._snapshot_id}")
        self._user.wait_gone(f"/snapshots/{self._snapshot_id}")
        return f"sha256 {self._checksum[:16]}..." if source else ""

    def mount(self, location: str, place: str) -> None:
        """The machine has it mounted, by NFS 4.2."""
        self._check("mkdir", "-p", place)
        self._check("mount", "-t", "nfs4", "-o", f"vers=4.2,port={self._nfs_port}", location, place)

    def _source(self) -> str:
        lines = self._check("cat", "/proc/mounts").splitlines()
        return next(line.split()[0] for line in lines if f" {self._mounted} nfs4 " in line)

    def _see(self, place: str) -> None:
        seen = self._sum(place)
        if seen != self._checksum:
            raise processes.LabError(f"read {seen} in {place}, written {self._checksum}")

    def _sum(self, place: str) -> str:
        return self._check("sha256sum", f"{place}/data").split()[0]

    def _check(self, *command: str) -> str:
        return self._the_machine().check(command, timeout_s=60.0)

    def _the_machine(self) -> client.Client:
        if self._machine is None:
            raise processes.LabError("there is no machine to mount on")
        return self._machine
