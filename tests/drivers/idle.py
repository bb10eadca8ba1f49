# SPDX-License-Identifier: Apache-2.0
"""A driver that does nothing and answers as if it had: what the contract tests have to find out.

As a plug-in of pytest (`-p tests.drivers.idle`) it puts itself in the place of the harnesses, and writes what became of
each test to the file IDLE_REPORT. With IDLE_METHODS in the environment it is, once for each of those methods, a dummy
driver of which only this method does nothing.
"""

import datetime
import os
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.contract import promises
from abaca.drivers.dummy import Dummy
from abaca.drivers.dummy_each import DummyEach
from tests.drivers import harness

METHODS, REPORT = "IDLE_METHODS", "IDLE_REPORT"


def exports_of(instance):
    """Export locations that look right."""
    place = instance.mount_point_name or instance.id
    hosts = instance.server.details.get("addresses", "").split(",") if instance.server else ["127.0.0.1"]
    return [contract.Export(path=f"{host}:/idle/{place}", preferred=number == 0) for number, host in enumerate(hosts)]


def created(instance, *others):
    return contract.Created(exports=exports_of(instance))


def snapshots_taken(snapshots):
    return {one.id: contract.SnapshotOutcome(provider_location=f"idle/{one.id}") for one in snapshots}


def addresses(subnets):
    return ",".join(one.ip_address for subnet in subnets for one in subnet.allocations)


def network_outcome(details, instances, subnets):
    served = contract.ShareServer(id="idle", details={"addresses": addresses(subnets)})
    moved = {one.id: exports_of_server(one, served) for one in instances}
    return contract.ServerNetworkOutcome(details=details, exports=moved)


def exports_of_server(instance, server):
    hosts = server.details["addresses"].split(",")
    return [contract.Export(path=f"{host}:/idle/{instance.id}", preferred=host == hosts[0]) for host in hosts]


def promoted(promotion):
    states = {one.instance.id: contract.ReplicaOutcome(state="in_sync") for one in promotion.replicas}
    return states | {promotion.replica.id: contract.ReplicaOutcome(state="active")}


FITS = contract.MigrationFit(compatible=True, writable=True, preserve_metadata=True, preserve_snapshots=True)
POOLS = [contract.PoolStats(name=name, total_gib=1000.0, free_gib=1000.0, allocated_gib=0.0) for name in ("pool1", "b")]

# What each method answers, by what it is given; what is not here answers None, as one does that returns nothing.
ANSWERS = {
    "backend_info": dict,
    "pools": lambda: POOLS,
    "create": created,
    "set_access": lambda instance, rules: {},
    "ensure": lambda instances: {},
    "inspect": lambda instances: {},
    "instances_after": lambda after, most: [],
    "measure_usage": lambda instances: {
        one.id: contract.Usage(used_gib=1.0, gathered_at=datetime.datetime.now(datetime.UTC)) for one in instances
    },
    "manage": lambda instance, options: contract.Managed(size_gib=3, exports=exports_of(instance)),
    "create_snapshot": lambda taken: snapshots_taken([taken])[taken.id],
    "create_from_snapshot": lambda instance, taken: created(instance),
    "end_clone": lambda clone: created(clone.instance),
    "export_snapshot": lambda taken: [contract.Export(path=f"127.0.0.1:/idle/{taken.id}", preferred=True)],
    "set_snapshot_access": lambda taken, rules: {},
    "manage_snapshot": lambda taken, options: contract.ManagedSnapshot(size_gib=2),
    "end_replica_creation": lambda asked: contract.ReplicaOutcome(state="in_sync", exports=exports_of(asked.replica)),
    "end_promotion": promoted,
    "replica_state": lambda replica, replicas: "in_sync",
    "create_replicated_snapshot": snapshots_taken,
    "create_group_snapshot": lambda whole: snapshots_taken(whole.snapshots),
    "create_group_from_snapshot": lambda group, whole, sources: {one.id: created(one) for one in group.instances},
    "check_migration": lambda migration: FITS,
    "end_migration": lambda migration: contract.MigrationResult(exports=exports_of(migration.destination)),
    "open_for_copy": lambda instance, addresses, level: contract.CopyMount(type="directory", source="/proc/self/task"),
    "set_up_server": lambda setup: {"identifier": f"idle-{setup.id}", "addresses": addresses(setup.subnets)},
    "choose_server": lambda servers, instance: servers[0] if servers else None,
    "find_server_addresses": lambda identifier, options: ["10.5.0.3"],
    "manage_server": lambda setup, identifier, options: {
        "identifier": identifier,
        "addresses": addresses(setup.subnets),
    },
    "check_server_network": lambda server, current, new: True,
    "update_server_network": lambda server, current, new, instances: network_outcome(
        dict(server.details), instances, [*current, new]
    ),
    "update_server_networks": lambda changes: {
        one.server.id: network_outcome(dict(one.server.details), one.instances, [*one.current, one.new])
        for one in changes
    },
    "remove_server_network": lambda server, old, instances: network_outcome(dict(server.details), instances, []),
    "check_security_service": lambda server, new, current: True,
    "update_security_service": lambda server, new, current: dict(server.details),
    "authority_pem": lambda: "",
    "issue": lambda name, request_pem: contract.Certificate(pem="", authority=""),
    "check_server_migration": lambda migration: FITS,
    "end_server_migration": lambda migration: network_outcome(
        {"identifier": "idle"}, migration.instances, migration.destination.subnets
    ),
}


def idle(name):
    """The method of that name, which does nothing."""
    answer = ANSWERS.get(name, lambda *given: contract.DONE if name.startswith("look_at_") else None)
    return lambda self, *given: answer(*given)


def idle_class(base, methods):
    """The driver class, of which these methods do nothing."""
    return type(f"Idle{base.__name__}", (base,), {name: idle(name) for name in methods})


def wholly_idle(*promised):
    """A class that promises all this and does nothing of it."""
    methods = {name for promise in promised for name in promises.methods(promise)} - {"change"}
    return type("Idle", promised, {name: idle(name) for name in methods})


class IdleHarness(harness.DummyHarness):
    """A driver that does nothing; there is nothing behind it either."""

    idle_driver = wholly_idle(Dummy, contract.EnsuresEach)

    @classmethod
    def driver_class(cls):
        return cls.idle_driver

    def build(self, **options):
        made = super().build(**options)
        return self.idle_driver(made.backend, made.options)

    def start(self, **options):
        self.driver = self.build(**options)
        return self.driver

    def kept(self, kind):
        return {}

    def fill(self, share, used_gib):
        """Nobody can."""

    def write(self, share, text):
        """Nobody can."""

    def copy(self, source, destination):
        """Nothing is there to be copied."""


class IdleAtOnceHarness(IdleHarness):
    """The same, where long calls are to be done at once."""

    idle_driver = wholly_idle(Dummy, contract.ClonesSnapshotsAtOnce, contract.RevertsAtOnce)


def partly_idle(method):
    """A dummy driver of which only one method does nothing, with its harness."""
    base = DummyEach if method == "ensure_share" else Dummy

    class Partly(harness.DummyHarness):
        idle_driver = idle_class(base, [method])

        @classmethod
        def driver_class(cls):
            return cls.idle_driver

        @classmethod
        def is_tested(cls, promise):
            return super().is_tested(promise) and method in promises.methods(promise)

        def build(self, **options):
            made = super().build(**options)
            return self.idle_driver(made.backend, made.options)

    return Partly


WHOLLY = {"idle": IdleHarness, "idle_at_once": IdleAtOnceHarness}


def pytest_configure(config):
    names = os.environ.get(METHODS, "").split()
    harness.HARNESSES.clear()
    harness.HARNESSES.update({name: partly_idle(name) for name in names} or WHOLLY)


def pytest_collection_modifyitems(items):
    """What needs no harness says nothing about a driver."""
    items[:] = [item for item in items if "harness" in getattr(item, "fixturenames", ())]


def pytest_runtest_logreport(report):
    """One line a test, to the file that IDLE_REPORT names."""
    if report.when == "call" or report.failed:
        outcome = report.outcome if report.when == "call" else "failed around it"
        with Path(os.environ[REPORT]).open("a") as file:
            file.write(f"{report.nodeid}\t{outcome}\n")
