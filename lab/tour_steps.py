# SPDX-License-Identifier: Apache-2.0
"""What the tour does and looks at: the life of one share, from its type to its end, seen from where it is mounted."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab import caller, client, processes, tour_snapshots

MIB = 1 << 20
GIB = 1 << 30
_MOUNT = "/mnt/share"
_ATTACHMENTS = "//abaca/v1/attachments"
_SERVERS = "//abaca/v1/servers"
_PLACE = "/net/mymount"
_FULL = re.compile("Disk quota exceeded|No space left on device")
_READ_ONLY = re.compile("Read-only file system")


@dataclasses.dataclass(frozen=True)
class Step:
    """One line of the tour: what it says, and what it does; the function returns a remark or nothing."""

    says: str
    does: Callable[[], str | None]


class ShareLife:
    """Creates, mounts, fills, grows, protects, attaches and deletes one share; each method is a step.

    `server` is what is registered of the machine; without a machine it is one on paper.
    """

    def __init__(
        self,
        administrator: caller.Caller,
        user: caller.Caller,
        machine: client.Client | None,
        nfs_port: int,
        server: Mapping[str, object],
    ) -> None:
        self._administrator = administrator
        self._user = user
        self._machine = machine
        self._nfs_port = nfs_port
        self._server = server
        self._server_id = ""
        self._attachment_id = ""
        self._share_id = ""
        self._rule_id = ""
        self._checksum = ""
        self._restoring = tour_snapshots.Restoring(user, machine, nfs_port, _MOUNT)

    def steps(self) -> Iterator[Step]:
        """The steps in order; without a machine those that mount are left out."""
        mounts = self._machine is not None
        yield Step("the back end reports its capacity", self.see_pools)
        yield Step("a share type says what a share shall be", self.make_type)
        yield Step("a share of 1 GiB is created", self.create)
        yield Step("an access rule lets one address in", self.allow)
        if mounts:
            yield Step("that machine mounts the share, by NFS 4.2", self.mount)
            yield Step("it writes 100 MiB", self.write)
            yield Step("it reads them back from the server, unchanged", self.read)
            yield Step("it fills the share and is stopped at its size", self.fill)
        yield Step("the share is extended to 2 GiB", self.extend)
        if mounts:
            yield Step("the machine goes on writing where it was stopped", self.write_more)
        yield from (Step(*one) for one in self._restoring.scene(lambda: self._share_id))
        yield Step("the access rule becomes read-only", self.protect)
        if mounts:
            yield Step("the machine can read, and no longer write", self.see_protection)
            yield Step("it unmounts the share", self.unmount)
        yield Step("the access rule is taken away", self.deny)
        where = "there" if mounts else "there, on paper"
        yield Step("the machine is registered as a server", self.register)
        yield Step(f"the share is attached to that server: one call, and it is mounted {where}", self.attach)
        if mounts:
            yield Step("it is in the server's mount table, and holds what was written", self.see_attached)
        yield Step("the share is detached", self.detach)
        yield Step("the server has neither the mount nor access any more", self.see_detached)
        yield Step(f"an action of the server attaches the share at {_PLACE}", self.act_attach)
        yield Step("the opposite action takes it away, and access with it", self.act_detach)
        yield Step("the server is removed", self.forget)
        yield Step("the share is deleted and gone", self.delete)

    def see_pools(self) -> str:
        pools = caller.wait_for_pools(self._administrator)
        return ", ".join(pools)

    def make_type(self) -> str:
        specs = {
            "snapshot_support": True,
            "create_share_from_snapshot_support": True,
            "revert_to_snapshot_support": True,
            "mount_snapshot_support": True,
        }
        made = caller.ensure_type(self._administrator, "default", **specs)
        return "default" if made else "default was there already"

    def create(self) -> str:
        share = self._user.post("/shares", "share", share_proto="NFS", size=1, name="tour", share_type="default")
        self._share_id = share["id"]
        self._user.wait(f"/shares/{self._share_id}", "available")
        return f"share {self._share_id}"

    def allow(self) -> str:
        address = self._machine.ipv4 if self._machine else "192.0.2.10"
        action = f"/shares/{self._share_id}/action"
        rule = self._user.post(action, "allow_access", access_type="ip", access_to=address, access_level="rw")
        self._rule_id = rule["id"]
        self._user.wait(f"/share-access-rules/{self._rule_id}", "active", key="state")
        return address

    def mount(self) -> str:
        location = self._preferred(self._user.get(f"/shares/{self._share_id}/export_locations"))
        self._check("mkdir", "-p", _MOUNT)
        self._check("mount", "-t", "nfs4", "-o", f"vers=4.2,port={self._nfs_port}", location, _MOUNT)
        if f" {_MOUNT} nfs4 " not in self._check("cat", "/proc/mounts"):
            raise processes.LabError(f"{_MOUNT} is not in the mount table")
        return location

    def write(self) -> str:
        places = "0 1 2 3 4 5 6 7 8 9"
        self._check("dd", "if=/dev/urandom", "of=/mnt/block", "bs=1M", "count=10")
        begun = time.monotonic()
        write = f"dd if=/mnt/block of={_MOUNT}/data bs=1M seek=${{n}}0 conv=notrunc 2> /dev/null || exit 1"
        self._check("sh", "-c", f"for n in {places}; do {write}; done; sync {_MOUNT}/data")
        rate = 100 / (time.monotonic() - begun)
        blocks = f"for n in {places}; do cat /mnt/block; done | sha256sum; rm /mnt/block"
        self._checksum = self._check("sh", "-c", blocks).split()[0]
        return f"at {rate:.0f} MiB/s, sha256 {self._checksum[:16]}..."

    def read(self) -> str:
        self._check("sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
        seen = self._check("sha256sum", f"{_MOUNT}/data").split()[0]
        if seen != self._checksum:
            raise processes.LabError(f"read {seen}, written {self._checksum}")
        return f"sha256 {seen[:16]}..."

    def fill(self) -> str:
        error = self._refused(f"dd if=/dev/zero of={_MOUNT}/fill bs=1M conv=fsync", _FULL)
        # Opening a file makes the client ask the server; until then it believes its own refused writes. Blocks, not
        # bytes: where one write was refused and a later one was not, there is a hole.
        look = f"for file in {_MOUNT}/data {_MOUNT}/fill; do : < $file; stat -c %b $file; done"
        used = 512 * sum(int(blocks) for blocks in self._check("sh", "-c", look).split())
        if not 0.9 * GIB < used <= GIB:
            raise processes.LabError(f"refused after {used // MIB} MiB: {error}")
        return f"{error} after {used // MIB} MiB"

    def extend(self) -> str:
        self._user.post(f"/shares/{self._share_id}/action", "extend", new_size=2)
        share = self._user.wait(f"/shares/{self._share_id}", "available")
        if share["size"] != 2:
            raise processes.LabError(f"the share has {share['size']} GiB")
        return "while it is in use" if self._machine else ""

    def write_more(self) -> str:
        self._check("dd", "if=/dev/zero", f"of={_MOUNT}/more", "bs=1M", "count=200", "conv=fsync")
        return "200 MiB more"

    def protect(self) -> str:
        body = {"update_access": {"access_level": "ro"}}
        self._user.call("PUT", f"/share-access-rules/{self._rule_id}", body)
        self._user.wait(f"/share-access-rules/{self._rule_id}", "active", key="state")
        return ""

    def see_protection(self) -> str:
        self._check("sh", "-c", f"head -c 1048576 {_MOUNT}/data | sha256sum")
        return self._refused(f"echo more > {_MOUNT}/refused", _READ_ONLY)

    def unmount(self) -> str:
        self._check("umount", _MOUNT)
        return ""

    def deny(self) -> str:
        self._user.post(f"/shares/{self._share_id}/action", "deny_access", access_id=self._rule_id)
        self._user.wait_gone(f"/share-access-rules/{self._rule_id}")
        return ""

    def register(self) -> str:
        server = register(self._administrator, self._server)
        self._server_id = server["id"]
        return f"{server['name']}, {', '.join(address['ip'] for address in server['addresses'])}"

    def attach(self) -> str:
        wish = {"share_id": self._share_id, "server_id": self._server_id}
        made = self._user.post(_ATTACHMENTS, "attachment", **wish)
        self._attachment_id = made["id"]
        found = self._user.wait(f"{_ATTACHMENTS}/{made['id']}", "active", key="state")
        return f"{found['export_location']} at {found['mount_point']}"

    def see_attached(self) -> str:
        place = self._user.get(f"{_ATTACHMENTS}/{self._attachment_id}")["mount_point"]
        self._see_mounted(place)
        seen = self._check("sha256sum", f"{place}/data").split()[0]
        if seen != self._checksum:
            raise processes.LabError(f"read {seen}, written {self._checksum}")
        self._check("sh", "-c", f"echo attached > {place}/attached && sync {place}/attached")
        return f"sha256 {seen[:16]}..., and it can write"

    def _see_mounted(self, place: str) -> None:
        if f" {place} nfs4 " not in self._check("cat", "/proc/mounts"):
            raise processes.LabError(f"{place} is not in the mount table")

    def detach(self) -> str:
        self._user.call("DELETE", f"{_ATTACHMENTS}/{self._attachment_id}")
        self._user.wait_gone(f"{_ATTACHMENTS}/{self._attachment_id}")
        return ""

    def see_detached(self) -> str:
        listed = f"/share-access-rules?share_id={self._share_id}"
        processes.wait_until(lambda: self._user.get(listed) == [], 30.0, "the end of the server's access")
        if self._machine is not None and " nfs4 " in self._check("cat", "/proc/mounts"):
            raise processes.LabError("something is still in the mount table")
        return ""

    def act_attach(self) -> str:
        self._act("share_attach")
        wanted = [{"id": self._share_id, "mount_point": _PLACE, "tag": self._share_id, "status": "active"}]
        processes.wait_until(lambda: self._shares_attached() == wanted, 60.0, "the server shows its share")
        if self._machine is not None:
            self._see_mounted(_PLACE)
            if self._check("cat", f"{_PLACE}/attached").strip() != "attached":
                raise processes.LabError(f"{_PLACE}/attached does not hold what was written")
        return "the server shows it"

    def act_detach(self) -> str:
        self._act("share_detach")
        processes.wait_until(lambda: self._shares_attached() == [], 60.0, "the server shows no share")
        return self.see_detached()

    def _act(self, action: str) -> None:
        """As it was first proposed for Nova, with the project's id in the address."""
        wish = {action: {"share_id": self._share_id, "mount_point": _PLACE}}
        self._user.call("POST", f"{self._compute}/action", wish)

    def _shares_attached(self) -> Any:
        return self._user.get(self._compute)["os-extended-shares:shares_attached"]

    @property
    def _compute(self) -> str:
        return f"//compute/v2.1/{self._server['project_id']}/servers/{self._server_id}"

    def forget(self) -> str:
        self._administrator.call("DELETE", f"{_SERVERS}/{self._server_id}")
        self._administrator.wait_gone(f"{_SERVERS}/{self._server_id}")
        return ""

    def delete(self) -> str:
        self._user.call("DELETE", f"/shares/{self._share_id}")
        self._user.wait_gone(f"/shares/{self._share_id}")
        return ""

    def _check(self, *command: str) -> str:
        return self._the_machine().check(command, timeout_s=60.0)

    def _refused(self, script: str, reason: re.Pattern[str]) -> str:
        """Run what must fail, and return the reason; raises `LabError` when it succeeds or fails otherwise."""
        result = self._the_machine().script(script, timeout_s=120.0)
        found = reason.search(result.stderr)
        if result.code == 0 or found is None:
            raise processes.LabError(f"{script}: exit {result.code}, {result.stderr.strip() or 'nothing said'}")
        return found.group()

    def _the_machine(self) -> client.Client:
        if self._machine is None:
            raise processes.LabError("there is no machine to mount on")
        return self._machine

    @staticmethod
    def _preferred(locations: list[dict[str, Any]]) -> str:
        if not locations:
            raise processes.LabError("the share has no export location")
        ordered = sorted(locations, key=lambda location: not location.get("preferred"))
        return str(ordered[0]["path"])


def register(administrator: caller.Caller, server: Mapping[str, object]) -> Any:
    """Register a machine and return it; one of that name, which a killed tour has left, is forgotten first."""
    for known in administrator.get(f"{_SERVERS}?all_projects=true"):
        if known["name"] == server["name"]:
            administrator.call("DELETE", f"{_SERVERS}/{known['id']}")
    return administrator.call("POST", _SERVERS, {"server": dict(server)}).body["server"]
