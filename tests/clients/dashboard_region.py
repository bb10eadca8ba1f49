# SPDX-License-Identifier: Apache-2.0
"""An Abaca of the example configuration in a region of a cloud, and all that a page of Horizon is about."""

import base64
import configparser
import itertools

from lab import caller, keystone, neutron, service
from tests.clients import command
from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "operating" / "examples" / "rehearsal.conf"
ABLE = {
    f"{name}_support": "True"
    for name in ("snapshot", "create_share_from_snapshot", "revert_to_snapshot", "mount_snapshot")
}
NEWEST = {"X-OpenStack-Manila-API-Version": "2.99"}


class Region:
    """The region in which the catalog names the Abaca at `abaca.url`; what it makes belongs to the project `demo`."""

    name = keystone.REGION

    def __init__(self, run):
        self._directory = run.path(f"dashboard-{self.name}")
        self.abaca = service.Service(run, self._sections(), directory=self._directory)
        self._numbers = itertools.count(1)

    def start(self, login):
        """Return when it serves users of that Keystone."""
        self._keystone = login
        self.abaca.configure("DEFAULT", auth_strategy="keystone")
        self.abaca.configure("keystone_authtoken", **login.validation_options())
        self.abaca.start()
        self.admin, self.demo = (
            caller.Caller(self.abaca.url, {**caller.token(login.token(who, "demo")), **NEWEST})
            for who in ("admin", "demo")
        )
        for name, value in (("default", "False"), ("served", "True")):
            self.type(name, value)

    def stop(self):
        self.abaca.stop()

    @property
    def project_id(self):
        return self._keystone.project_id("demo")

    def _sections(self):
        said = configparser.RawConfigParser(default_section="of none")
        said.read(EXAMPLE)
        return {name: dict(said[name]) for name in said.sections()}

    def new_name(self, kind):
        """A name that nothing has yet."""
        return f"{kind}-{next(self._numbers)}"

    def type(self, name=None, handles="False", **said):
        specs = {"driver_handles_share_servers": handles, **ABLE}
        wanted = {"name": name or self.new_name("type"), "extra_specs": specs, **said}
        return self.admin.post("/types", "share_type", **wanted)

    def group_type(self):
        share_type = self.type()["id"]
        said = {"name": self.new_name("group-type"), "share_types": [share_type], "group_specs": {"kept": "yes"}}
        return self.admin.post("/share-group-types", "share_group_type", **said)

    def private_group_type(self):
        said = {"name": self.new_name("group-type"), "share_types": [self.type()["id"]], "is_public": False}
        made = self.admin.post("/share-group-types", "share_group_type", **said)
        return {**made, "project_id": self.project_id}

    def private_type(self):
        said = {"share_type_access:is_public": False}
        return {**self.type(**said), "project_id": self.project_id}

    def share(self, **said):
        wanted = {"share_proto": "NFS", "size": 1, "name": self.new_name("share"), **said}
        made = self.demo.post("/shares", "share", **wanted)
        return self.demo.wait(f"/shares/{made['id']}", "available")

    def served_share(self):
        return self.share(share_type="served", share_network_id=self.network()["id"])

    def snapshot(self, **said):
        wanted = {
            "share_id": said.pop("share_id", None) or self.share()["id"],
            "name": self.new_name("snapshot"),
            **said,
        }
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
        return self.demo.post("/share-networks", "share_network", name=self.new_name("network"), **said)

    def zoned_network(self):
        """One that has no subnet of a zone yet."""
        (zone,) = self.demo.get("/availability-zones")
        return {**self.network(), "zone": zone["name"], "zone_id": zone["id"]}

    def subnet(self):
        network = self.network()
        return network["share_network_subnets"][0] | {"share_network_id": network["id"]}

    def security_service(self):
        said = {"type": "ldap", "dns_ip": "10.0.0.1", "server": "ldap", "domain": "example"}
        return self.demo.post("/security-services", "security_service", name=self.new_name("directory"), **said)

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


class Tenants(Region):
    """A region with a Neutron, which its Abaca asks about networks."""

    name = "Tenants"

    def __init__(self, run):
        super().__init__(run)
        self.neutron = neutron.Neutron(run, self.name)

    def start(self, login):
        self.neutron.start(login)
        login.name("sharev2", f"{self.abaca.url}/v2", self.name)
        known = {"auth": login.credentials("admin"), "region_name": self.name, "identity_api_version": "3"}
        command.write_clouds(self._clouds, {"neutron": known})
        super().start(login)

    def stop(self):
        super().stop()
        self.neutron.stop()

    @property
    def _clouds(self):
        return self._directory / "clouds.yaml"

    def _sections(self):
        sections = {name: said for name, said in super()._sections().items() if not name.startswith("subnet_")}
        asks = {"neutron_clouds_file": self._clouds, "neutron_deployment": self.name}
        return {**sections, "networks": {"plugin": "neutron", **asks}}

    def beneath(self, who="demo", **said):
        """A network of Neutron with a subnet: their ids, names, and what a form calls the network."""
        asked = caller.Caller(self.neutron.address, caller.token(self._keystone.token(who, "demo")))
        made = asked.post("//v2.0/networks", "network", name=self.new_name("net"), **said)
        cidr = {"ip_version": 4, "cidr": f"10.{next(self._numbers)}.0.0/24"}
        subnet = asked.post("//v2.0/subnets", "subnet", name=self.new_name("subnet"), network_id=made["id"], **cidr)
        return {
            "neutron_net_id": made["id"],
            "neutron_net": made["name"],
            "choice": base64.b32encode(made["id"].encode()).decode().lower().replace("=", "_"),
            "neutron_subnet_id": subnet["id"],
            "neutron_subnet": subnet["name"],
        }

    def provided(self):
        """One that administrators share with everybody."""
        return self.beneath("admin", shared=True)

    def network(self):
        beneath = self.beneath()
        ids = {name: beneath[name] for name in ("neutron_net_id", "neutron_subnet_id")}
        return {**super().network(**ids), **beneath}

    def zoned_network(self):
        """One that has no subnet of a zone yet, and what may be beneath that."""
        return {**super().zoned_network(), **self.beneath()}
