# SPDX-License-Identifier: Apache-2.0
"""The example configuration with a real Keystone and a Horizon, and a project that has one of everything."""

import configparser
import contextlib
import itertools
import re

from lab import caller, horizon, keystone, service
from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "operating" / "examples" / "rehearsal.conf"
PAGE = ROOT / "docs" / "operating" / "clients.md"
ABLE = {
    f"{name}_support": "True"
    for name in ("snapshot", "create_share_from_snapshot", "revert_to_snapshot", "mount_snapshot")
}
NEWEST = {"X-OpenStack-Manila-API-Version": "2.99"}


def features():
    """What the operators' page tells Horizon."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = {}
    exec(code, said)  # noqa: S102 (an operator's file of settings is code)
    return said["OPENSTACK_MANILA_FEATURES"]


class Site:
    """All of it, running; what it makes belongs to the project `demo`."""

    def __init__(self, run):
        self.abaca = service.Service(run, self._example(), directory=run.path("rehearsal"))
        self.keystone = keystone.Keystone(run, self.abaca.url)
        self.horizon = horizon.Horizon(run, self.keystone, features())
        # as it is without a word of its operator: it shows all that there could be
        self.untold = horizon.Horizon(run, self.keystone, {}, name="horizon-untold")
        self._ends = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            ends.enter_context(self.keystone)
            said = self.keystone.validation_options()
            self.abaca.configure("DEFAULT", auth_strategy="keystone")
            self.abaca.configure("keystone_authtoken", **said)
            ends.enter_context(self.abaca)
            self.admin, self.demo = (
                caller.Caller(self.abaca.url, {**caller.token(self.keystone.token(who, "demo")), **NEWEST})
                for who in ("admin", "demo")
            )
            for name, value in (("default", "False"), ("served", "True")):
                self.type(name, value)
            ends.enter_context(self.horizon)
            ends.enter_context(self.untold)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *exception):
        self._ends.close()

    def name(self, kind):
        """A name that nothing has yet."""
        return f"{kind}-{next(self._numbers)}"

    def type(self, name=None, handles="False", **said):
        specs = {"driver_handles_share_servers": handles, **ABLE}
        wanted = {"name": name or self.name("type"), "extra_specs": specs, **said}
        return self.admin.post("/types", "share_type", **wanted)

    def group_type(self):
        share_type = self.type()["id"]
        said = {"name": self.name("group-type"), "share_types": [share_type], "group_specs": {"kept": "yes"}}
        return self.admin.post("/share-group-types", "share_group_type", **said)

    def private_group_type(self):
        said = {"name": self.name("group-type"), "share_types": [self.type()["id"]], "is_public": False}
        made = self.admin.post("/share-group-types", "share_group_type", **said)
        return {**made, "project_id": self.keystone.project_id("demo")}

    def private_type(self):
        said = {"share_type_access:is_public": False}
        return {**self.type(**said), "project_id": self.keystone.project_id("demo")}

    def share(self, **said):
        wanted = {"share_proto": "NFS", "size": 1, "name": self.name("share"), **said}
        made = self.demo.post("/shares", "share", **wanted)
        return self.demo.wait(f"/shares/{made['id']}", "available")

    def served_share(self):
        return self.share(share_type="served", share_network_id=self.network()["id"])

    def snapshot(self, **said):
        wanted = {"share_id": said.pop("share_id", None) or self.share()["id"], "name": self.name("snapshot"), **said}
        made = self.demo.post("/snapshots", "snapshot", **wanted)
        return self.demo.wait(f"/snapshots/{made['id']}", "available")

    def rule(self, **said):
        wanted = {"access_type": "ip", "access_to": "10.0.0.0/24", "access_level": "rw", **said}
        share = self.share()
        made = self.demo.post(f"/shares/{share['id']}/action", "allow_access", **wanted)
        self.demo.wait(f"/share-access-rules/{made['id']}", "active", key="state")
        return {**made, "share_id": share["id"]}

    def snapshot_rule(self):
        snapshot = self.snapshot()
        said = {"access_type": "ip", "access_to": "10.0.0.0/24"}
        made = self.demo.post(f"/snapshots/{snapshot['id']}/action", "allow_access", **said)
        return {**made, "snapshot_id": snapshot["id"]}

    def left_share(self):
        """What a share that was given up left: at `host` and `path`."""
        share = self.share()
        (path, *_) = self.demo.get(f"/shares/{share['id']}/export_locations")
        host = self.admin.get(f"/shares/{share['id']}")["host"]
        self.admin.call("POST", f"/shares/{share['id']}/action", {"unmanage": None})
        self.admin.wait_gone(f"/shares/{share['id']}")
        return {"id": share["id"], "host": host, "path": path["path"]}

    def location(self):
        share = self.share()
        return self.demo.get(f"/shares/{share['id']}/export_locations")[0] | {"share_id": share["id"]}

    def network(self, **said):
        return self.demo.post("/share-networks", "share_network", name=self.name("network"), **said)

    def zoned_network(self):
        """One that has no subnet of a zone yet."""
        (zone,) = self.demo.get("/availability-zones")
        return {**self.network(), "zone": zone["name"], "zone_id": zone["id"]}

    def subnet(self):
        network = self.network()
        return network["share_network_subnets"][0] | {"share_network_id": network["id"]}

    def security_service(self):
        said = {"type": "ldap", "dns_ip": "10.0.0.1", "server": "ldap", "domain": "example"}
        return self.demo.post("/security-services", "security_service", name=self.name("directory"), **said)

    def server(self):
        share = self.served_share()
        (found,) = self.admin.get(f"/share-servers?share_network_id={share['share_network_id']}")
        self.demo.call("DELETE", f"/shares/{share['id']}")
        self.demo.wait_gone(f"/shares/{share['id']}")
        return found

    def lock(self):
        said = {"resource_id": self.share()["id"], "resource_type": "share", "resource_action": "delete"}
        return self.demo.post("/resource-locks", "resource_lock", lock_reason="kept", **said)

    def rule_lock(self):
        rule = self.rule(lock_deletion=True)
        (lock,) = self.demo.get(f"/resource-locks?resource_id={rule['id']}")
        return lock

    def message(self):
        """Of a share that no pool can hold."""
        odd = self.type(extra_specs={"driver_handles_share_servers": "False", "colour": "mauve"})
        made = self.demo.post("/shares", "share", share_proto="NFS", size=1, share_type=odd["name"])
        self.demo.wait(f"/shares/{made['id']}", "error")
        (message,) = self.demo.get(f"/messages?resource_id={made['id']}")
        return message

    @staticmethod
    def _example():
        said = configparser.RawConfigParser(default_section="of none")
        said.read(EXAMPLE)
        return {name: dict(said[name]) for name in said.sections()}
