# SPDX-License-Identifier: Apache-2.0
"""The scene of the tour in which a directory that a user had before becomes their share, and no byte is copied."""

from __future__ import annotations

import hashlib
import os
import pathlib
import uuid
from collections.abc import Iterator

from lab import caller, client, processes
from lab.tour_steps import MIB, Step

_MOUNT = "/mnt/accounts"
_MIB = 20


class TakingOver:
    """A directory of a pool becomes a share, and is handed to the project whose it was; each method is a step.

    `pool` is where the pool lies on this host, `mount` what mounts and from which port; without a pool there is no
    directory, and a rehearsal of it is taken over.
    """

    def __init__(
        self,
        administrator: caller.Caller,
        user: caller.Caller,
        pool: pathlib.Path | None,
        mount: tuple[client.Client | None, int],
    ) -> None:
        self._administrator = administrator
        self._user = user
        self._pool = pool
        self._machine, self._nfs_port = mount
        # one of its own, since an earlier tour may have been killed here
        self._name = f"accounts-{uuid.uuid4().hex[:8]}"
        self._checksum = ""
        self._share_id = ""

    def steps(self) -> Iterator[Step]:
        """The steps in order."""
        if self._pool is not None:
            yield Step("a user has a directory with files on the storage host", self.fill)
        yield Step("it is taken over where it lies, as a share", self.take_over)
        yield Step("which is handed to the user's project", self.hand_over)
        if self._pool is not None:
            yield Step("the machine mounts it, and finds the files", self.see)
        yield Step("the share is deleted like any other", self.delete)

    def fill(self) -> str:
        directory = self._the_pool() / self._name
        processes.command(["btrfs", "subvolume", "create", str(directory)])
        content = os.urandom(_MIB * MIB)
        (directory / "ledger").write_bytes(content)
        self._checksum = hashlib.sha256(content).hexdigest()
        return f"{directory}, {_MIB} MiB"

    def take_over(self) -> str:
        backend = "dummy" if self._pool is None else "local"
        pools = [pool["name"] for pool in self._administrator.get(f"/scheduler-stats/pools?backend={backend}")]
        wish = {"service_host": pools[0], "protocol": "NFS", "export_path": self._name, "name": "accounts"}
        share = self._administrator.post("/shares/manage", "share", **wish, driver_options={"size": "1"})
        self._share_id = share["id"]
        found = self._administrator.wait(f"/shares/{self._share_id}", "available")
        return f"share {self._share_id}, of {found['size']} GiB; nothing was copied"

    def hand_over(self) -> str:
        offer = self._administrator.post("/share-transfers", "transfer", share_id=self._share_id)
        accepted = {"accept": {"auth_key": offer["auth_key"]}}
        self._user.call("POST", f"/share-transfers/{offer['id']}/accept", accepted)
        found = self._user.wait(f"/shares/{self._share_id}", "available")
        return f"project {found['project_id']}"

    def see(self) -> str:
        machine = self._the_machine()
        words = {"access_type": "ip", "access_to": machine.ipv4, "access_level": "ro"}
        rule = self._user.post(f"/shares/{self._share_id}/action", "allow_access", **words)
        self._user.wait(f"/share-access-rules/{rule['id']}", "active", key="state")
        location = str(self._user.get(f"/shares/{self._share_id}/export_locations")[0]["path"])
        machine.check(("mkdir", "-p", _MOUNT), timeout_s=60.0)
        options = f"vers=4.2,port={self._nfs_port}"
        machine.check(("mount", "-t", "nfs4", "-o", options, location, _MOUNT), timeout_s=60.0)
        seen = machine.check(("sha256sum", f"{_MOUNT}/ledger"), timeout_s=60.0).split()[0]
        machine.check(("umount", _MOUNT), timeout_s=60.0)
        if seen != self._checksum:
            raise processes.LabError(f"read {seen}, written {self._checksum}")
        return f"sha256 {seen[:16]}..."

    def delete(self) -> str:
        self._user.call("DELETE", f"/shares/{self._share_id}")
        self._user.wait_gone(f"/shares/{self._share_id}")
        return ""

    def _the_pool(self) -> pathlib.Path:
        if self._pool is None:
            raise processes.LabError("there is no pool on this host")
        return self._pool

    def _the_machine(self) -> client.Client:
        if self._machine is None:
            raise processes.LabError("there is no machine to mount on")
        return self._machine
