# SPDX-License-Identifier: Apache-2.0
"""What the tour shows of share networks: a tenant's share on two subnets, a third that comes while it is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab import caller, processes
from lab.tour_steps import Step

# Declared networks: the share network lies on the first, and asks for the others by name.
SUBNETS: dict[str, dict[str, object]] = {
    "west": {"cidr": "10.87.1.0/24", "is_default": "true"},
    "north": {"cidr": "fd87::/64", "network_id": "tour", "subnet_id": "north"},
    "east": {"cidr": "10.87.2.0/24", "network_id": "tour", "subnet_id": "east"},
}
TYPE = "tenant"


def sections() -> dict[str, dict[str, object]]:
    """What the configuration says of these networks; nobody but the share server is on them."""
    return {
        "networks": {"subnets": ",".join(SUBNETS)},
        **{f"subnet_{name}": {**said, "network_type": "flat"} for name, said in SUBNETS.items()},
    }


class TenantNetwork:
    """One share network, with one share on it; each method is a step."""

    def __init__(self, administrator: caller.Caller, user: caller.Caller) -> None:
        self._administrator = administrator
        self._user = user
        self._network_id = ""
        self._share_id = ""

    def steps(self) -> Iterator[Step]:
        """The steps in order."""
        yield Step("a tenant's share network has two subnets, IPv4 and IPv6", self.make)
        yield Step("a share on it makes a share server, which answers on both", self.create)
        yield Step("a third subnet is added while it serves: one call", self.add)
        yield Step("and is taken away again", self.remove)
        yield Step("the share goes, and with its network the share server", self.delete)

    def make(self) -> str:
        caller.ensure_type(self._administrator, TYPE, driver_handles_share_servers=True)
        network = self._user.post("/share-networks", "share_network", name="tour")
        self._network_id = network["id"]
        self._user.call("POST", f"{self._own}/subnets", {"subnet": _ids("north")})
        return f"share network {self._network_id}"

    def create(self) -> str:
        wish = {"share_proto": "NFS", "size": 1, "name": "tenant", "share_type": TYPE}
        share = self._user.post("/shares", "share", **wish, share_network_id=self._network_id)
        self._share_id = share["id"]
        self._user.wait(f"/shares/{self._share_id}", "available")
        return self._see_locations(2)

    def add(self) -> str:
        self._user.call("POST", f"{self._own}/subnets", {"subnet": _ids("east")})
        self._settle()
        return self._see_locations(3)

    def remove(self) -> str:
        (east,) = (one for one in self._subnets() if one["neutron_subnet_id"] == "east")
        self._user.call("DELETE", f"{self._own}/subnets/{east['id']}")
        self._settle()
        return self._see_locations(2)

    def delete(self) -> str:
        self._user.call("DELETE", f"/shares/{self._share_id}")
        self._user.wait_gone(f"/shares/{self._share_id}")
        for subnet in self._subnets()[1:]:
            self._user.call("DELETE", f"{self._own}/subnets/{subnet['id']}")
            self._settle()
        self._user.call("DELETE", f"/share-networks/{self._network_id}")
        processes.wait_until(
            lambda: self._administrator.get("/share-servers") == [], 60.0, "the end of the share server"
        )
        return ""

    @property
    def _own(self) -> str:
        return f"//abaca/v1/share-networks/{self._network_id}"

    def _shown(self) -> Any:
        return self._user.get(f"//abaca/v1/share-networks?id_prefix={self._network_id}")[0]

    def _subnets(self) -> Any:
        return self._shown()["share_network_subnets"]

    def _settle(self) -> None:
        processes.wait_until(lambda: self._shown()["status"] == "active", 60.0, "the share network active")

    def _see_locations(self, number: int) -> str:
        found = [one["path"] for one in self._user.get(f"/shares/{self._share_id}/export_locations")]
        if len(found) != number:
            raise processes.LabError(f"the share has the export locations {found}, not {number}")
        return ", ".join(sorted(path.rpartition(":/")[0] for path in found))


def _ids(name: str) -> dict[str, object]:
    return {
        f"neutron_{key.replace('network', 'net')}": value for key, value in SUBNETS[name].items() if key.endswith("_id")
    }
