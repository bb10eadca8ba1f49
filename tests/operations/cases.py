# SPDX-License-Identifier: Apache-2.0
"""How each kind of operation comes about: what is prepared, and which request starts it. A new kind needs two lines."""

import ipaddress
from typing import Any, NamedTuple

import sqlalchemy as sa

from abaca.db.administration import pools
from abaca.db.journal import operations
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.shares import export_locations, share_instances, snapshots
from abaca.db.shares.export_location_history import NOBODY, Owner
from abaca.db.tables import journal, networks
from abaca.db.tables import shares as tables
from abaca.domain.ids import new_id
from abaca.journal import questions, wakeup
from abaca.operations.administration import backend_reconcile, instance_mend, snapshot_mend
from abaca.operations.attachments import attachment_explain, server_check
from abaca.operations.attachments.attachment_parts import QUEUE
from abaca.operations.networks import share_network_check, share_network_look, share_server_create, share_server_delete
from abaca.operations.shares import snapshot_instances
from abaca.operations.shares.share_instances import contract_instance
from tests import planting
from tests.operations import directory_cases, server_takeover, takeover
from tests.operations.cluster_cases import CHANGED, change_cluster, delete_cluster, exchange_node, make_cluster
from tests.operations.ensure_cases import HOST, ensure, ensure_dry, ensure_served
from tests.operations.machines import NUMBERS, a_guest, a_server, a_wide_server
from tests.operations.snapshot_cases import (
    COUNTED,
    a_share_for_snapshots,
    a_snapshot,
    a_snapshot_with_rules,
    an_inheriting_snapshot,
    change_snapshot_rules,
    clone,
    delete_snapshot,
    take_snapshot,
)
from tests.operations.transfer_cases import accept_transfer, an_offered_share


class Case(NamedTuple):
    """`prepare(theatre)` runs with a healthy worker; `request(theatre, prepared)` gives the id of what it is about.

    A second case of a kind names the steps that are others than those of the first; only these are hurt again.
    """

    prepare: Any
    request: Any
    steps: tuple[str, ...] = ()


def nothing(_theatre):
    return None


def a_share(theatre, size=3, proto="NFS"):
    share_id = new_share(theatre, None, size, proto)
    theatre.until_ended("share-create", share_id)
    return share_id


def new_share(theatre, _prepared, size=3, proto="NFS"):
    body = {"share": {"share_proto": proto, "size": size, "metadata": COUNTED}}
    return theatre.ask("POST", "/shares", body)["share"]["id"]


def a_share_network(theatre, **subnet):
    """With one subnet, the default one of the zone where nothing else is said."""
    return theatre.ask("POST", "/share-networks", {"share_network": {"name": "net", **subnet}})["share_network"]["id"]


def new_share_on(theatre, network_id, size=3, share_type="served"):
    body = {"share_proto": "NFS", "size": size, "share_type": share_type, "share_network_id": network_id}
    return theatre.ask("POST", "/shares", {"share": body})["share"]["id"]


def new_share_server(theatre, network_id):
    """A share server that is asked for, and a share that waits for it; the id of the first."""
    server_id = new_lone_share_server(theatre, network_id)
    new_share_on(theatre, network_id)
    return server_id


def new_lone_share_server(theatre, network_id):
    """A share server that is asked for, and for which nobody waits."""
    with theatre.db.write() as tx:
        network = share_networks.show(tx, network_id)
        subnets = share_network_subnets.of_network(tx, network_id)
        made_for = share_server_create.MadeFor(network_id, network.project_id)
        return share_server_create.start(tx, theatre.drivers[1], made_for, subnets, None)


def a_served_network(theatre):
    """A share network on whose one server a share is."""
    network_id = a_share_network(theatre)
    theatre.until_ended("share-create", new_share_on(theatre, network_id))
    return network_id


def a_share_on_a_share_network(theatre):
    share_id = new_share_on(theatre, a_share_network(theatre))
    theatre.until_ended("share-create", share_id)
    return share_id


FIELDS = {"neutron_net_id": "fields", "neutron_subnet_id": "blue"}
CHECK = {"share_network_subnet_create_check": FIELDS}
VERSION = {"x-openstack-manila-api-version": "2.99"}


def check_subnet(theatre, network_id):
    theatre.ask("POST", f"/share-networks/{network_id}/action", CHECK)
    return network_id


def checked(theatre, network_id=None):
    """The same, asked about a subnet more."""
    network_id = network_id or a_served_network(theatre)
    check_subnet(theatre, network_id)
    theatre.until_ended("share-network-check", network_id)
    return network_id


def add_subnet(theatre, network_id):
    """The id of the first server that gets it."""
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": FIELDS})
    with theatre.db.read() as tx:
        return share_servers.on_network(tx, network_id)[0].id


def checked_for_two(theatre):
    """The same of a share network with two servers, on one of which a share is."""
    network_id = a_served_network(theatre)
    theatre.until_ended("share-server-create", new_lone_share_server(theatre, network_id))
    return checked(theatre, network_id)


def add_subnet_to_two(theatre, network_id):
    add_subnet(theatre, network_id)
    return network_id


def a_share_on_two_subnets(theatre):
    """A share network with two subnets, on whose one server a share is; the ids of both."""
    network_id = a_share_network(theatre)
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": FIELDS})
    share_id = new_share_on(theatre, network_id)
    theatre.until_ended("share-create", share_id)
    return network_id, share_id


def on_two_subnets(theatre):
    """A share network on whose one server a share is, which is attached to a machine of its second subnet."""
    network_id, share_id = a_share_on_two_subnets(theatre)
    until_attached(theatre, attach(theatre, (share_id, a_wide_server(theatre))))
    return network_id


def remove_subnet(theatre, network_id):
    """The second one; the id of the server that leaves it."""
    with theatre.db.read() as tx:
        (subnet,) = (one for one in share_network_subnets.of_network(tx, network_id) if one.ip_version == 6)
    theatre.ask("DELETE", f"//abaca/v1/share-networks/{network_id}/subnets/{subnet.id}")
    with theatre.db.read() as tx:
        return share_servers.on_network(tx, network_id)[0].id


def a_served_network_and_a_directory(theatre):
    return a_served_network(theatre), directory_cases.a_directory(theatre)


def a_checked_directory(theatre):
    prepared = a_served_network_and_a_directory(theatre)
    directory_cases.check_directory(theatre, prepared)
    theatre.until_ended("security-service-check", prepared[0])
    return prepared


def plan_subnet(theatre, network_id):
    """The id of the question, as the API asks it; who is answered is nobody."""
    with theatre.db.read() as tx:
        (server,) = share_servers.on_network(tx, network_id)
    args = share_network_check.Args(network_id, share_network_check.Wanted(None, *FIELDS.values()), (server.id,))
    return ask(theatre, share_network_look.OPERATION, args, server.host)


def a_failed_share_server(theatre):
    """A share server in error, with the share on it, that lacks a subnet of its network."""
    network_id = a_served_network(theatre)
    with theatre.db.write() as tx:
        share_network_subnets.add(tx, network_id, FIELDS)
        (server,) = share_servers.on_network(tx, network_id)
    planting.put(theatre.db, networks.share_servers, networks.share_servers.c.id == server.id, status="error")
    on_it = tables.share_instances.c.share_server_id == server.id
    planting.put(theatre.db, tables.share_instances, on_it, status="error")
    return server.id


def mend_share_server(theatre, server_id):
    theatre.ask("POST", f"//abaca/v1/share-servers/{server_id}/mend", who="admin")
    return server_id


def an_unused_share_server(theatre):
    share_id = new_share_on(theatre, a_share_network(theatre))
    theatre.until_ended("share-create", share_id)
    (shown,) = theatre.ask("GET", f"/shares/{share_id}/instances", who="admin")["share_instances"]
    delete(theatre, share_id)
    theatre.until_ended("share-delete", share_id)
    return shown["share_server_id"]


def delete_share_server(theatre, server_id):
    with theatre.db.write() as tx:
        share_server_delete.start(tx, share_servers.show(tx, server_id), None)
    return server_id


def act(theatre, share_id, **action):
    return theatre.ask("POST", f"/shares/{share_id}/action", action)


def allow(theatre, share_id, to):
    return act(theatre, share_id, allow_access={"access_type": "ip", "access_to": to, "metadata": COUNTED})["access"][
        "id"
    ]


def a_share_with_rules(theatre):
    share_id = a_share(theatre)
    rules = [allow(theatre, share_id, to) for to in ("10.0.0.1", "10.0.0.2", "10.0.0.3")]
    theatre.settle()
    return share_id, rules


def change_rules(theatre, prepared):
    """One is denied, one changed and one added: a single operation takes all three."""
    share_id, rules = prepared
    act(theatre, share_id, deny_access={"access_id": rules[0]})
    theatre.ask("PUT", f"/share-access-rules/{rules[1]}", {"update_access": {"access_level": "ro"}})
    allow(theatre, share_id, "10.0.0.4")
    return share_id


def delete(theatre, share_id):
    theatre.ask("DELETE", f"/shares/{share_id}")
    return share_id


def another_instance(theatre, share_id, driver, **so):
    """A second instance of a share, planted on that back end and, beside the first, in the database; its id."""
    t = tables.share_instances
    with planting.by_hand(theatre.db) as tx:
        (row,) = tx.rows(sa.select(t).where(t.c.share_id == share_id))
        second = {**row._mapping, "id": new_id(), "access_rules_status": "active", **so}
        tx.execute(sa.insert(t), second)
    with theatre.db.write() as tx:
        whole = share_instances.whole(tx, second["id"])
        exports = driver.create(contract_instance(whole)).exports
        export_locations.add(tx, second["id"], exports, Owner(share_id, whole.project_id), NOBODY)
        pools.recount(tx)
    return second["id"]


def a_share_with_two_instances(theatre):
    share_id = a_share(theatre)
    return share_id, another_instance(theatre, share_id, theatre.driver)


def delete_second_instance(theatre, prepared):
    share_id, second = prepared
    theatre.ask("POST", f"/share_instances/{second}/action", {"force_delete": None}, who="admin")
    return share_id


def delete_both_instances(theatre, prepared):
    return delete(theatre, prepared[0])


def a_snapshot_that_is_gone(theatre):
    share_id, snapshot_id = a_snapshot(theatre)
    with theatre.db.read() as tx:
        args = snapshot_instances.found(tx, snapshots.find(tx, snapshot_id).instance_id)
    delete_snapshot(theatre, (share_id, snapshot_id))
    theatre.until_ended("snapshot-delete", snapshot_id)
    return share_id, snapshot_mend.Args(args.snapshot, snapshot_id)


def mend_snapshot(theatre, prepared):
    with theatre.db.write() as tx:
        snapshot_mend.start(tx, prepared[1], HOST, None)
    return prepared[1].snapshot_id


def a_share_to_take_back(theatre):
    """A share with a rule that came after its snapshot."""
    share_id, snapshot_id = a_snapshot(theatre)
    allow(theatre, share_id, "10.0.0.1")
    theatre.settle()
    return share_id, snapshot_id


def revert(theatre, prepared):
    share_id, snapshot_id = prepared
    act(theatre, share_id, revert={"snapshot_id": snapshot_id})
    return share_id


def extend(theatre, share_id):
    act(theatre, share_id, extend={"new_size": 5})
    return share_id


def shrink(theatre, share_id):
    act(theatre, share_id, shrink={"new_size": 1})
    return share_id


def a_share_that_has_moved(theatre):
    """What the database says of where it can be mounted from is no longer so."""
    share_id = a_share(theatre)
    for one in theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"]:
        path = f"/shares/{share_id}/export_locations/{one['id']}/metadata"
        theatre.ask("POST", path, {"metadata": COUNTED})
    with theatre.db.write() as tx:
        tx.execute(sa.update(tables.export_locations).values(path="10.9.9.9:/elsewhere"))
    return share_id


def instance_of(theatre, share_id):
    """The share's instance as its driver is told of it."""
    with theatre.db.read() as tx:
        found = share_instances.INSTANCES.one(tx, ("id",), {"share_id": share_id})
        return contract_instance(share_instances.whole(tx, found.id))


def reconcile(theatre, _share_id, **more):
    args = backend_reconcile.Args(HOST, **more)
    with theatre.db.write() as tx:
        op_id = backend_reconcile.ask(tx, HOST, args, 60, None).id
    with theatre.db.read() as tx:
        return operations.show(tx, op_id).resource_id


def mend(theatre, share_id):
    with theatre.db.write() as tx:
        instance_mend.start(tx, instance_of(theatre, share_id), HOST, None)
    return share_id


def a_share_and_a_server(theatre, proto="NFS"):
    server_id = a_server(theatre, str(ipaddress.ip_address("10.7.0.1") + next(NUMBERS)))
    return a_share(theatre, proto=proto), server_id


def attach(theatre, prepared, **more):
    share_id, server_id = prepared
    wish = {"attachment": {"share_id": share_id, "server_id": server_id, **more}}
    return theatre.ask("POST", "//abaca/v1/attachments", wish)["attachment"]["id"]


def a_share_and_a_guest(theatre):
    return a_share(theatre), a_guest(theatre)


def hand_in(theatre, prepared):
    return attach(theatre, prepared, mode="virtiofs")


def a_handed_in_share(theatre):
    return until_attached(theatre, hand_in(theatre, a_share_and_a_guest(theatre)))


def an_attachment(theatre):
    return until_attached(theatre, attach(theatre, a_share_and_a_server(theatre)))


def until_attached(theatre, attachment_id):
    theatre.until_ended("attachment-attach", attachment_id)
    theatre.settle()
    return attachment_id


def detach(theatre, attachment_id):
    theatre.ask("DELETE", f"//abaca/v1/attachments/{attachment_id}")
    return attachment_id


def verify(theatre, attachment_id):
    theatre.ask("POST", f"//abaca/v1/attachments/{attachment_id}/verify")
    return attachment_id


def ask(theatre, kind, args, queue=QUEUE):
    """Ask workers a question, as the API does; who is answered is nobody."""
    asked = questions.Questions(theatre.db, wakeup.NoListener)
    asked.ask(kind, args, queue, None)
    asked.close()
    with theatre.db.read() as tx:
        newest = sa.select(journal.operations.c.resource_id).where(journal.operations.c.kind == kind.kind)
        return tx.scalar(newest.order_by(journal.operations.c.seq.desc()).limit(1))


def check(theatre, prepared):
    return ask(theatre, server_check.OPERATION, server_check.Args(prepared[1]))


def explain(theatre, attachment_id):
    return ask(theatre, attachment_explain.OPERATION, attachment_explain.Args(attachment_id))


def a_share_and_servers(theatre, number=3):
    return a_share(theatre), [
        a_server(theatre, str(ipaddress.ip_address("10.7.0.1") + next(NUMBERS))) for _ in range(number)
    ]


def a_cluster(theatre):
    cluster_id = make_cluster(theatre, a_share_and_servers(theatre))
    theatre.until_ended("cluster-change", cluster_id)
    theatre.settle()
    return cluster_id


def a_cluster_and_more(theatre):
    share_id, (server_id,) = a_share_and_servers(theatre, 1)
    return a_cluster(theatre), share_id, server_id


# By kind; a second case of a kind has a word more.
CASES = {
    "attachment-attach": Case(lambda theatre: a_share_and_a_server(theatre, "GLUSTERFS"), attach),
    "attachment-attach by address": Case(a_share_and_a_server, attach, ("mount_on_server",)),
    "attachment-attach virtiofs": Case(a_share_and_a_guest, hand_in, ("mount_on_server",)),
    "attachment-detach": Case(an_attachment, detach),
    "attachment-detach virtiofs": Case(a_handed_in_share, detach, ("unmount_on_server",)),
    "attachment-explain": Case(an_attachment, explain),
    "attachment-verify": Case(an_attachment, verify),
    "cluster-change": Case(a_share_and_servers, make_cluster),
    "cluster-change of one that is": Case(a_cluster_and_more, change_cluster, CHANGED),
    "cluster-change of one node": Case(a_cluster_and_more, exchange_node, CHANGED),
    "cluster-delete": Case(a_cluster, delete_cluster),
    "backend-ensure-dry-run": Case(a_share_that_has_moved, ensure_dry),
    "backend-reconcile": Case(a_share, reconcile),
    "instance-mend": Case(a_share, mend),
    "backend-ensure": Case(a_share_that_has_moved, ensure),
    "backend-ensure of share servers": Case(a_served_network, ensure_served, ("ensure_servers",)),
    "security-service-check": Case(a_served_network_and_a_directory, directory_cases.check_directory),
    "server-check": Case(a_share_and_a_server, check),
    "share-clone": Case(a_snapshot, clone),
    "share-create": Case(nothing, new_share),
    "share-create on a share network": Case(a_share_network, new_share_on, ("create_on_backend",)),
    "share-delete": Case(a_share, delete),
    "share-delete two instances": Case(a_share_with_two_instances, delete_both_instances, ("delete_on_backend",)),
    "share-instance-delete": Case(a_share_with_two_instances, delete_second_instance),
    "share-extend": Case(a_share, extend),
    "share-manage": Case(lambda theatre: takeover.given_up(theatre, a_share(theatre)), takeover.manage),
    "share-manage on a share server": Case(
        lambda theatre: server_takeover.share_given_up(theatre, a_share_on_a_share_network(theatre)),
        server_takeover.manage_share,
        ("manage_on_backend",),
    ),
    "share-network-add-subnet": Case(checked_for_two, add_subnet_to_two),
    "share-network-check": Case(a_served_network, check_subnet),
    "share-server-add-subnet": Case(checked, add_subnet),
    "share-network-look": Case(a_served_network, plan_subnet),
    "share-server-remove-subnet": Case(on_two_subnets, remove_subnet),
    "share-server-create": Case(a_share_network, new_share_server),
    "share-server-join": Case(a_checked_directory, directory_cases.join_directory),
    "share-server-manage": Case(
        lambda theatre: server_takeover.given_up(theatre, an_unused_share_server(theatre)), server_takeover.manage
    ),
    "share-server-unmanage": Case(an_unused_share_server, server_takeover.release),
    "share-server-mend": Case(a_failed_share_server, mend_share_server),
    "share-server-update-subnet": Case(a_served_network, directory_cases.describe_subnet),
    "share-server-delete": Case(an_unused_share_server, delete_share_server),
    "share-revert": Case(a_share_to_take_back, revert),
    "share-shrink": Case(a_share, shrink),
    "share-transfer": Case(an_offered_share, accept_transfer),
    "share-unmanage": Case(lambda theatre: a_share_with_rules(theatre)[0], takeover.unmanage),
    "snapshot-access-sync": Case(a_snapshot_with_rules, change_snapshot_rules),
    "snapshot-create": Case(a_share_for_snapshots, take_snapshot),
    "snapshot-delete": Case(a_snapshot, delete_snapshot),
    "snapshot-manage": Case(
        lambda theatre: takeover.snapshot_given_up(theatre, a_snapshot(theatre)), takeover.manage_snapshot
    ),
    "snapshot-unmanage": Case(lambda theatre: a_snapshot_with_rules(theatre)[:2], takeover.unmanage_snapshot),
    "snapshot-mend": Case(a_snapshot_that_is_gone, mend_snapshot),
    "access-rules-sync": Case(a_share_with_rules, change_rules),
    "access-rules-sync with a snapshot": Case(an_inheriting_snapshot, change_rules, ("apply_rules",)),
}
