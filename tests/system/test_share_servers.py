# SPDX-License-Identifier: Apache-2.0
"""A tenant's share on a share server of its own, from the request to a client in the tenant's network."""

from pathlib import Path

import pytest

from lab import caller, fabric
from tests.conftest import wait_until
from tests.drivers.tenants import Machine
from tests.system.world import World


@pytest.fixture
def network(run):
    return fabric.Fabric(run)


@pytest.fixture
def world(run, network):
    """A `local` back end with share servers, and a declared subnet on a bridge of this host."""
    cidr = network.network_v4
    ids = {"network_id": "network", "subnet_id": "subnet"}
    sections = {
        "local": {
            "driver_handles_share_servers": "true",
            "segment_bridges": f"vlan-7:{network.bridge}",
            "nfs_minor_versions": "0,1,2",
            "ganesha_port": 2049,
        },
        "networks": {"subnets": "tenants"},
        "subnet_tenants": ids
        | {"cidr": cidr, "ranges": f"{cidr[20]}-{cidr[30]}", "network_type": "vlan", "segmentation_id": 7},
    }
    world = World(run, sections)
    world.abaca.start()
    world.user.post("/types", "share_type", name="tenant", extra_specs={"driver_handles_share_servers": "True"})
    caller.wait_for_pools(world.user)
    return world


def test_a_share_comes_with_its_server_and_the_server_goes_without_a_trace(run, network, world):
    user = world.user
    ids = {"neutron_net_id": "network", "neutron_subnet_id": "subnet"}
    made = user.post("/share-networks", "share_network", name="net", **ids)
    share_id = world.share(share_type="tenant", share_network_id=made["id"])
    machine = Machine(run, network.bridge, f"{network.network_v4[50]}/24")
    world.allow(share_id, str(network.network_v4[50]))
    (place,) = user.get(f"/shares/{share_id}/export_locations")
    address, _, path = place["path"].partition(":")
    machine.command("nfs-ls", f"nfs://{address}{path}?version=4")
    (server,) = user.get("/share-servers")
    directory = world.abaca.directory / "state" / "backends" / "local" / "servers" / server["id"]
    assert directory.is_dir()
    world.delete(share_id)
    user.call("DELETE", f"/share-servers/{server['id']}")
    wait_until(lambda: user.get("/share-servers") == [], every_s=0.1)
    assert not directory.exists()
    marks = [link.read_text() for link in Path("/sys/class/net").glob("ab*/ifalias")]
    assert not [mark for mark in marks if str(run.directory) in mark]
    machine.close()
