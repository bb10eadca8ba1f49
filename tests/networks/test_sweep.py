# SPDX-License-Identifier: Apache-2.0
"""Ports that are left behind are found by `abaca network-allocation sweep`; gone are those that are provably ours."""

import json
import uuid

import pytest

from abaca.cli.main import main
from abaca.db.journal import operations
from abaca.db.networks import share_servers as rows
from abaca.db.tables.journal import operations as operations_table
from abaca.db.tables.networks import share_servers
from abaca.reconcile.network_allocations import NetworkAllocations
from tests import planting
from tests.databases import place
from tests.networks.harness import PROJECT, ZONE, StandaloneHarness

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture
def abaca(tmp_path, capsys):
    """`abaca network-allocation sweep` with the settings of a harness; what it shows, as JSON."""

    def sweep(options, *more):
        file = tmp_path / "abaca.conf"
        said = [
            f"{name} = {value}"
            for name, value in ((one, getattr(options, one)) for one in ("plugin", *NEUTRON))
            if value is not None
        ]
        file.write_text("\n".join([f"[DEFAULT]\nstate_path = {tmp_path}\n[networks]", *said]))
        with pytest.raises(SystemExit) as end:
            main(["network-allocation", "sweep", "--config-file", str(file), *more])
        assert end.value.code == 0
        return capsys.readouterr().out

    return sweep


NEUTRON = ("neutron_clouds_file", "neutron_cloud", "neutron_deployment")


def found(text):
    """What was found, by its port: the kind, and what was done."""
    return {one["port_id"]: (one["kind"], one["done"]) for one in json.loads(text)}


def left_behind(harness, subnet):
    """A port for a share server that is not there; the port's id and the server's."""
    server_id = str(uuid.uuid4())
    plugin = harness.plugin
    with plugin._asking() as neutron:
        return plugin._make(neutron, server_id, subnet, PROJECT).id, server_id


def remember_deletion(db, server_id):
    """The journal remembers that a share server was deleted."""
    with db.write() as tx:
        same = {"queue": "h@b", "keys": [], "args": {}, "resource_type": "share-server", "resource_id": server_id}
        op_id = operations.add(tx, {"kind": "share-server-delete", **same})
    planting.put(db, operations_table, operations_table.c.id == op_id, state="done")


@pytest.mark.system
def test_what_is_leaked_goes_and_what_is_not_provably_ours_stays(harness, abaca):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    live = harness.server(subnet)
    network = harness.plugin.look(subnet, ZONE)
    (kept,) = harness.plugin.allocate(live, subnet, network, 1)
    leaked, deleted_id = left_behind(harness, subnet)
    remember_deletion(harness.db, deleted_id)
    unknown, _ = left_behind(harness, subnet)
    with harness.plugin._asking() as neutron:
        spare = harness.plugin._make(neutron, live, subnet, PROJECT).id
        theirs = neutron.create_port(
            network_id=subnet.neutron_net_id, device_owner="manila:share", device_id=deleted_id, description="Manila's"
        ).id

    def there():
        return {one.id for one in harness.neutron.ports(network_id=subnet.neutron_net_id)}

    planting.put(harness.db, share_servers, share_servers.c.id == live, status="active")
    everything = {kept.id, leaked, unknown, spare, theirs}
    assert there() == everything
    kinds = {leaked: "leaked", unknown: "unknown", spare: "spare"}
    assert found(abaca(harness.options, "--dry-run", "--json")) == {one: (kind, "kept") for one, kind in kinds.items()}
    assert there() == everything
    removed = {leaked: ("leaked", "removed"), unknown: ("unknown", "kept"), spare: ("spare", "kept")}
    assert found(abaca(harness.options, "--json")) == removed
    assert there() == everything - {leaked}
    assert found(abaca(harness.options, "--unknown", "--json")) == {
        unknown: ("unknown", "removed"),
        spare: ("spare", "kept"),
    }
    harness.plugin.free(live)
    assert there() == {theirs}
    assert abaca(harness.options) == "All addresses are those of share servers.\n"


@pytest.mark.system
def test_a_worker_takes_back_by_itself_what_is_leaked(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    _, deleted_id = left_behind(harness, subnet)
    unknown, _ = left_behind(harness, subnet)
    remember_deletion(harness.db, deleted_id)
    sweep = NetworkAllocations(harness.db, harness.plugin)
    assert (sweep.heal(), sweep.heal()) == (1, 0)
    assert [one.id for one in harness.neutron.ports(network_id=subnet.neutron_net_id)] == [unknown]


@pytest.mark.system
def test_an_address_whose_port_somebody_has_deleted_is_told_and_stays(harness, abaca):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = harness.server(subnet)
    (allocation,) = harness.plugin.allocate(server_id, subnet, harness.plugin.look(subnet, ZONE), 1)
    harness.neutron.delete_port(allocation.id)
    (one,) = json.loads(abaca(harness.options, "--json"))
    assert (one["kind"], one["share_server_id"], one["done"]) == ("lost", server_id, "kept")
    assert one["ip_addresses"] == allocation.ip_address
    assert list(harness.rows(server_id)) == [allocation.id]


def released(harness):
    """The id of the address that a server has left which was given up, and the address."""
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = harness.server(subnet)
    with harness.db.write() as tx:
        rows.update(tx, server_id, {"identifier": "filer-7"})
    (allocation,) = harness.plugin.allocate(server_id, subnet, harness.plugin.look(subnet, ZONE), 1)
    harness.plugin.leave(server_id)
    harness.remove_server(server_id)
    return allocation.id, allocation.ip_address


def test_what_was_left_is_told_and_stays_until_it_is_released(tmp_path, request, abaca, capsys):
    database = place("sqlite", tmp_path, request)
    harness = StandaloneHarness(database)
    allocation_id, address = released(harness)
    for options in ((), ("--unknown",)):
        (one,) = json.loads(abaca(harness.options, *options, "--json"))
        assert (one["kind"], one["share_server_id"], one["done"]) == ("left", "filer-7 on h@b", "kept")
        assert (one["port_id"], one["ip_addresses"]) == (allocation_id, address)
    for code, said in ((0, "Other share servers may have it now.\n"), (1, "")):
        with pytest.raises(SystemExit) as end:
            main(["network-allocation", "release", "--config-file", str(tmp_path / "abaca.conf"), allocation_id])
        assert (end.value.code, capsys.readouterr().out) == (code, said)
    assert abaca(harness.options) == "All addresses are those of share servers.\n"
    database.close()


@pytest.mark.system
def test_the_port_of_what_was_left_is_neither_leaked_nor_unknown(harness, abaca, tmp_path):
    allocation_id, address = released(harness)
    (one,) = json.loads(abaca(harness.options, "--unknown", "--json"))
    assert (one["kind"], one["port_id"], one["ip_addresses"]) == ("left", allocation_id, address)
    assert NetworkAllocations(harness.db, harness.plugin).heal() == 0
    assert harness.neutron.get_port(allocation_id).id == allocation_id
    with pytest.raises(SystemExit) as end:
        main(["network-allocation", "release", "--config-file", str(tmp_path / "abaca.conf"), allocation_id])
    assert end.value.code == 0
    assert harness.neutron.find_port(allocation_id) is None


def test_declared_subnets_leave_nothing_behind(tmp_path, request, abaca):
    database = place("sqlite", tmp_path, request)
    harness = StandaloneHarness(database)
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    harness.plugin.allocate(harness.server(subnet), subnet, harness.plugin.look(subnet, ZONE), 1)
    assert abaca(harness.options) == "All addresses are those of share servers.\n"
    database.close()
