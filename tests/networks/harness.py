# SPDX-License-Identifier: Apache-2.0
"""One harness a network plug-in: how the contract tests start it, make networks, and read back what it did there."""

import json
import uuid

import msgspec
import sqlalchemy as sa
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from abaca import settings
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.tables.networks import network_allocations
from abaca.networks.neutron import Neutron
from abaca.networks.standalone import Standalone

PROJECT, OTHER = "a1" * 16, "b2" * 16
ZONE = "east"
CAN = dict.fromkeys(
    ("security_service_update_support", "network_allocation_update_support", "share_server_multiple_subnet_support"),
    True,
)


class Place:
    """A database with share networks, their subnets and share servers."""

    def __init__(self, database):
        self._database = database
        self.db = database.open()
        self._reader = database.open()
        self.options = settings.Networks()

    def change(self, **options):
        """Plug-ins from now on have other options."""
        self.options = msgspec.structs.replace(self.options, **options)

    def new_network(self, project_id=PROJECT):
        with self.db.write() as tx:
            words = {"project_id": project_id, "user_id": "u", "name": "red", "description": None}
            return share_networks.add(tx, words)

    def subnet(self, ids, project_id=PROJECT, of=None):
        """A new subnet of a share network, a new one unless it is said, that names something beneath by two ids."""
        said = dict(zip(("neutron_net_id", "neutron_subnet_id"), ids or (None, None), strict=True))
        network_id = of or self.new_network(project_id)
        with self.db.write() as tx:
            made = share_network_subnets.add(tx, network_id, said)
            return next(one for one in share_network_subnets.of_network(tx, network_id) if one.id == made)

    def server(self, *subnets):
        """The id of a new share server on these subnets."""
        values = {"project_id": PROJECT, "share_network_id": subnets[0].share_network_id, "host": "h@b", **CAN}
        with self.db.write() as tx:
            return share_servers.add(tx, values, [subnet.id for subnet in subnets])

    def remove_server(self, server_id):
        with self.db.write() as tx:
            share_servers.delete(tx, server_id)

    def rows(self, server_id):
        """The addresses of a server in the database, as another process sees them."""
        t = network_allocations
        found = sa.select(t.c.id, t.c.ip_address).where(t.c.share_server_id == server_id).order_by(t.c.ip_address)
        with self._reader.read() as tx:
            return {row.id: row.ip_address for row in tx.rows(found)}

    def kept(self, tx):
        """Id and server of each address in the database."""
        t = network_allocations
        return [tuple(row) for row in tx.rows(sa.select(t.c.id, t.c.share_server_id))]


class StandaloneHarness(Place):
    """Declared subnets over a database."""

    def __init__(self, database):
        super().__init__(database)
        self._declared = []

    @property
    def plugin(self):
        """The plug-in as a worker that starts now has it."""
        return Standalone(self._database.open(), self.options, self._declared)

    def beneath(self, cidr, gateway=None, project_id=None, **more):
        """The two ids of something new beneath subnets; of one project's, if that is said."""
        number = len(self._declared)
        made = settings.DeclaredSubnet(
            name=f"n{number}",
            network_id=f"net-{number}",
            subnet_id=f"sub-{number}",
            cidr=cidr,
            gateway=gateway,
            projects=(project_id,) if project_id else (),
            **more,
        )
        made.check()
        self._declared.append(made)
        return made.network_id, made.subnet_id

    def segment(self, ids):
        """Type and number of the segment as they were declared."""
        (one,) = [one for one in self._declared if (one.network_id, one.subnet_id) == ids]
        return one.network_type, one.segmentation_id

    def seen(self, server_id):
        """The addresses that a server has, by the plug-in's own door."""
        return sorted(self.rows(server_id).values())

    def close(self):
        """The database is the test's."""


class NeutronHarness(Place):
    """Networks of a real Neutron that a real Keystone has in its catalog."""

    def __init__(self, database, directory, login, neutron):
        super().__init__(database)
        said = {"auth": login.credentials("admin"), "region_name": "RegionOne", "identity_api_version": "3"}
        self.clouds = directory / "clouds.yaml"
        self.clouds.touch(mode=0o600)
        self.clouds.write_text(json.dumps({"clouds": {"neutron": said}}))
        config = OpenStackConfig(config_files=[str(self.clouds)], load_envvars=False)
        self._connection = Connection(config=config.get_one(cloud="neutron"))
        self.neutron = self._connection.network
        self.server_process = neutron
        self.options = settings.Networks(
            plugin="neutron",
            neutron_clouds_file=self.clouds,
            neutron_deployment=f"test-{uuid.uuid4()}",
        )
        self._plugins = []

    @property
    def plugin(self):
        """The plug-in as a worker that starts now has it."""
        self._plugins.append(Neutron(self._database.open(), self.options))
        return self._plugins[-1]

    def beneath(self, cidr, gateway=None, project_id=PROJECT, mtu=None, **more):
        """The two ids of something new beneath subnets; of one project's."""
        network = self.neutron.create_network(project_id=project_id, **({"mtu": mtu} if mtu else {}), **more)
        said = {"network_id": network.id, "ip_version": 6 if ":" in cidr else 4, "project_id": project_id}
        return network.id, self.neutron.create_subnet(cidr=cidr, gateway_ip=gateway, **said).id

    def segment(self, ids):
        """Type and number of the segment as Neutron has drawn them."""
        network = self.neutron.get_network(ids[0])
        return network.provider_network_type, network.provider_segmentation_id

    def ports(self, server_id):
        return list(self.neutron.ports(device_id=server_id))

    def seen(self, server_id):
        """The addresses that a server has, by the plug-in's own door."""
        return sorted(one["ip_address"] for port in self.ports(server_id) for one in port.fixed_ips)

    def close(self):
        for one in self._plugins:
            one.close()
        self._connection.close()
