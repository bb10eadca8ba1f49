# SPDX-License-Identifier: Apache-2.0
"""A whole Abaca on one database in which operations are hurt: the API in this process, workers here and in processes.

Requests go through the API, drivers are the dummy's, whose state file all workers share. `check` compares what is left
with what must be: the operation ended, nothing busy, pending or leased, the back end as the database says, all counts
right.
"""

import contextlib
import os
import signal
import threading
from pathlib import Path

import msgspec
import sqlalchemy as sa

from abaca import app, settings
from abaca.db.attachments import attachment_counts
from abaca.db.catalog import quotas
from abaca.db.engine.database import Database
from abaca.db.journal import operations as rows
from abaca.db.shares.instance_access_rules import worst
from abaca.db.tables.administration import messages, pools, services
from abaca.db.tables.attachments import attachments, orphaned_mounts
from abaca.db.tables.clusters import clusters
from abaca.db.tables.journal import operation_keys, operation_waits
from abaca.db.tables.networks import share_servers
from abaca.db.tables.shares import (
    access_rules,
    driver_data,
    instance_access_rules,
    share_instances,
    shares,
    snapshot_instances,
)
from abaca.domain.attachments.attachments import ATTACHMENT
from abaca.domain.clusters.clusters import CLUSTER
from abaca.domain.shares.access_rules import PENDING
from abaca.domain.shares.shares import SHARE_INSTANCE
from abaca.drivers import contract
from abaca.journal.kinds import Retry
from abaca.journal.worker import Timing, Worker
from abaca.operations.administration.late_calls import LateCalls
from abaca.operations.parts import queue_of
from abaca.operations.registry import OPERATIONS
from abaca.reconcile.backends import Backends
from tests.api.world import NEWEST, world
from tests.conftest import wait_until
from tests.databases import Place
from tests.events import told
from tests.operations import beside, served_by
from tests.operations.bench import Final

NAME = "testhost"
TIMING = Timing(
    lease_s=30.0, poll_s=600.0, grace_s=20.0, start_again_s=(0.05,), retry=Retry(delays_s=(0.01, 0.02), undo_tries=2)
)
# for those whose work another shall take over soon
HASTY = msgspec.structs.replace(TIMING, lease_s=0.3)
MORE = """
default_share_type = default
driver_updatable_subnet_metadata = mtu
enabled_share_protocols = NFS, GLUSTERFS
[worker]
ensure_page = 10
[events]
log = true
[quota]
shares = -1
gigabytes = -1
share_networks = -1
snapshots = -1
snapshot_gigabytes = -1
"""

# The looks after calls to machines that may come too late: they come two leases after a worker's end.
_WHAT = sa.func.coalesce(sa.cast(rows.t.c.wait, sa.String), "")
_FOR_LATE_CALLS = sa.and_(rows.t.c.state == "waiting", _WHAT.like("%too late%"))
_TO_DO = sa.select(rows.t.c.id).where(rows.t.c.state.not_in(rows.ENDED), sa.not_(_FOR_LATE_CALLS)).limit(1)
_WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


class Arms:
    """What happens at a point, the first time it is reached: an error, a death, or whatever else a test gives."""

    def __init__(self, actions):
        self.actions = dict(actions)

    def __call__(self, point):
        action = self.actions.pop(point, None)
        if action is not None:
            action()


def final():
    raise Final(reason="on purpose")


def passing():
    raise contract.Busy(reason="on purpose")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS = {"final": final, "passing": passing, "die": die}


class Stage(msgspec.Struct):
    """What the workers of one installation share: settings and database, known to a process before its children are."""

    settings: settings.Settings
    db: Database
    here: Place


STAGES = {}


def known_stage(config):
    if config not in STAGES:
        loaded = settings.read([Path(config)], environ={}).settings
        db = app.open_database(loaded)
        place = Place(loaded.database_url, loaded.state_path, None if loaded.uses_sqlite else "elsewhere")
        place._opened.append(db)
        STAGES[config] = Stage(loaded, db, place)
    return STAGES[config]


def make_worker(known, name, timing):
    """A worker as the composition root makes one, without periodic_tasks."""
    of_backends = [
        queue_of(app.driver(known.settings, one), 4, app.network_of(known.settings, known.db, one))
        for one in known.settings.backends
    ]
    served = [*of_backends, app.serve_nodes(known.settings, known.db)]
    worker = Worker(name, known.db, served, OPERATIONS, timing=timing, listener=known.here.listener(name))
    worker.on_started = Backends(known.db, of_backends).announce
    late = LateCalls({one.name: one for one in of_backends})
    worker.on_late, worker.on_taken = late.returned, late.taken
    return worker


def rehearse(config):
    """Done once by whoever has the children: what they need is compiled, and no connection is left to them."""
    known = known_stage(config)
    worker = make_worker(known, "rehearsal", TIMING)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_until(lambda: all(one.is_started for one in worker.queues.values()), every_s=0.002)
    worker.stop()
    thread.join()
    wait_until(lambda: threading.active_count() == 1)  # a fork copies no threads, but the locks that they hold
    known.db.let_go()


def play_victim(config, name, arms, timing):
    """The life of a worker process that does not survive the point at which it is armed to die."""
    worker = make_worker(known_stage(config), name, msgspec.convert(timing, Timing))
    worker.faults = Arms({point: ACTIONS[action] for point, action in arms.items()})
    worker.run()


# What the driver wants kept for each share: every test of an operation sees whether it is, and goes with the share.
KEPT = "driver_data = volume:7\n"


class Theatre:
    """One installation, and the workers that a test lets act."""

    networks = served_by.NETWORKS

    def __init__(self, place, directory, nursery, stack, driver="dummy", *, makes_servers=False, served=""):
        """`driver` stands in the back end's section, with further lines of it if there are any.

        With `makes_servers` there is a second one, whose section has the lines `served` as well.
        """
        self.place = place
        self.nursery = nursery
        directory = Path(directory)
        connection = f"[database]\nconnection = {place.url}\n" if not place.is_sqlite else ""
        self.world = stack.enter_context(world(directory, worker=False, more=MORE + connection))
        self.config = directory / "abaca.conf"
        written = self.with_driver(self.config.read_text(), driver)
        enabled = "enabled_share_backends = alpha"
        if makes_servers:
            more = served_by.BACK_END.format(driver=driver.partition("\n")[0], more=served) + self.networks
            written = written.replace(enabled, f"{enabled},served") + more
        self.config.write_text(written)
        self.db = self.world.db
        here = Place(place.url, directory, place.server)
        here._opened.append(self.db)
        self.stage = Stage(settings.read([self.config], environ={}).settings, self.db, here)
        self.drivers = [app.driver(self.stage.settings, one) for one in self.stage.settings.backends]
        for one in self.drivers:
            one.start()
            stack.callback(one.stop)
        self.driver = self.drivers[0]
        self.nodes = app.nodes(self.stage.settings)
        self.acting = None
        self.thread = None
        self.told = set()
        stack.callback(self.leave)
        if nursery is not None:
            nursery.do("tests.operations.theatre:rehearse", config=str(self.config))
        stack.callback(self.nodes.close)
        for name, specs in TYPES.items():
            if makes_servers or name != "served":
                self.ask("POST", "/types", {"share_type": {"name": name, "extra_specs": specs}}, who="admin")

    def with_driver(self, written, driver):
        """The configuration with that driver in the place of the dummy."""
        return written.replace("driver = dummy\n", f"driver = {driver}\n{KEPT}")

    # ---------------------------------------------------------------- users

    def ask(self, method, path, body=None, who="member"):
        answer = self.world.ask(who, method, path, body, **{"x-openstack-manila-api-version": NEWEST})
        assert answer.status < 300, answer
        return answer.body

    def status(self, share_id):
        return self.ask("GET", f"/shares/{share_id}")["share"]["status"]

    # ---------------------------------------------------------------- workers

    def enter(self, name=NAME, *, timing=TIMING, arms=None):
        """A worker in this process; the one before leaves."""
        self.leave()
        worker = make_worker(self.stage, name, timing)
        worker.faults = arms or Arms({})
        self.thread = threading.Thread(target=worker.run, name=f"worker {name}")
        self.acting = worker
        self.thread.start()
        wait_until(lambda: all(one.is_started for one in worker.queues.values()), every_s=0.002)
        return worker

    def leave(self):
        if self.acting is not None:
            self.acting.stop()
            self.thread.join(60)
            assert not self.thread.is_alive()
            self.acting = None

    def ensure_actor(self):
        """A healthy worker under the usual name, with whatever arms it is given later."""
        if self.acting is None or self.acting.name != NAME or self.acting.timing is not TIMING:
            self.enter()
        return self.acting

    def kill_at(self, arms, timing):
        """A worker process that dies where `arms` say."""
        self.leave()
        return self.nursery.start(
            "tests.operations.theatre:play_victim",
            config=str(self.config),
            name=NAME,
            arms=arms,
            timing=msgspec.to_builtins(timing),
        )

    # ---------------------------------------------------------------- looking

    def operation(self, kind, resource_id):
        """The newest operation of that kind about the resource, as a row."""
        with self.db.read() as tx:
            found = rows.find(tx, kind=kind, resource_id=resource_id, limit=1)
        assert found, f"no {kind} was queued"
        return found[0]

    def operations(self, kind):
        """All of that kind, the newest first."""
        with self.db.read() as tx:
            return rows.find(tx, kind=kind)

    def until_ended(self, kind, resource_id, timeout_s=60.0):
        def ended():
            with contextlib.suppress(sa.exc.OperationalError):
                row = self.operation(kind, resource_id)
                return row if row.state in rows.ENDED else None

        return wait_until(ended, timeout_s, every_s=0.003)

    def settle(self):
        """Until nothing is left to do now."""
        wait_until(self._is_idle, every_s=0.003)

    def _is_idle(self):
        with contextlib.suppress(sa.exc.OperationalError), self.db.read() as tx:
            return not tx.rows(_TO_DO)

    def _wrong(self, operation):
        with self.db.read() as tx:
            found = [*stuck(tx), *counted_wrong(tx), *self.differences(tx, operation.resource_id)]
            found += left_on_servers(tx, self.nodes)
            found += beside.share_servers_wrong(tx, self.drivers)
            found += beside.snapshots_wrong(tx, self.drivers)
            return found + told_wrong(tx, operation)

    def check(self, operation):
        """What is wrong after an operation has ended; nothing, it is hoped."""
        found = self._wrong(operation)
        if found:  # a look after late calls comes due at any time, and is not wrong while it lasts
            self.settle()
            found = [line for line in self._wrong(operation) if line in found]
        with self.db.read() as tx:
            # each is told once, of the case that it belongs to
            found = [line for line in found if line not in self.told]
            self.told.update(found)
            if operation.state == "failed" and operation.resource_type in ("share", "attachment", "snapshot"):
                about = messages.c.resource_id == operation.resource_id
                told = sa.or_(about, messages.c.reason.contains(f"attachment {operation.resource_id}:"))
                if not tx.rows(sa.select(messages.c.id).where(told)):
                    found.append("it failed, and nobody told the user")
        return found

    def waiting(self):
        """How many transactions wait for another one. For PostgreSQL."""
        with self.db.read() as tx:
            return tx.scalar(_WAITING)

    def differences(self, tx, share_id=None):
        """Where the back end holds something else than the database says, for one share or for all."""
        query = sa.select(share_instances, shares.c.size).join(shares, shares.c.id == share_instances.c.share_id)
        # with its server's status a share's says nothing of its own data
        broken = sa.select(share_servers.c.id).where(share_servers.c.status == "error")
        on_broken = sa.and_(share_instances.c.status == "error", share_instances.c.share_server_id.in_(broken))
        if share_id is not None:
            query = query.where(share_instances.c.share_id == share_id)
        known = {row.id: row for row in tx.rows(query)}
        unsure = {row.id for row in tx.rows(sa.select(share_instances.c.id).where(on_broken))}
        held = {key: entry for one in self.drivers for key, entry in one.contents().get("instance", {}).items()}
        if share_id is not None:
            held = {key: entry for key, entry in held.items() if key in known or entry.get("share_id") == share_id}
        found = [f"the back end holds {key}, of which the database knows nothing" for key in held.keys() - known.keys()]
        for key, row in known.items():
            if key in unsure:
                continue
            found += differs(row, held.get(key), rules_of(tx, row.id))
        return found


DHSS = "driver_handles_share_servers"
VERBS = ("snapshot", "create_share_from_snapshot", "revert_to_snapshot", "mount_snapshot")
OF_SNAPSHOTS = {f"{verb}_support": "True" for verb in VERBS}
TYPES = {
    "default": {DHSS: "False"},
    "copied": {DHSS: "False", **OF_SNAPSHOTS},
    "inherited": {DHSS: "False", **OF_SNAPSHOTS, "snapshot_inherit_share_access_support": "True"},
    "served": {DHSS: "True"},
}
# In these the back end may or may not have something: the next delete finds out.
UNSURE = ("error_deleting", "unmanage_error")
# In these it has nothing.
LOST = ("error", "manage_error")


def differs(row, entry, rules):
    """How a share's part on the back end differs from what its row says."""
    if row.status in UNSURE:
        return []
    if row.status in LOST:
        return [f"{row.id} is in {row.status}, but the back end holds it"] if entry else []
    if entry is None:
        return [f"{row.id} is {row.status}, but the back end does not hold it"]
    found = []
    if entry["size_gib"] != row.size:
        found.append(f"{row.id} has {row.size} GiB, the back end gives {entry['size_gib']}")
    let_in = {to for _, to, _ in entry["rules"]}
    active = {to for to, state in rules.items() if state == "active"}
    unsure = {to for to, state in rules.items() if state == "error"}
    if not active <= let_in <= active | unsure:
        found.append(f"{row.id} shall let in {sorted(active)}, the back end lets in {sorted(let_in)}")
    return found


def rules_of(tx, instance_id):
    on_instance = instance_access_rules.c
    query = sa.select(access_rules.c.client, on_instance.state).join(
        access_rules, access_rules.c.id == on_instance.access_rule_id
    )
    return {row.client: row.state for row in tx.rows(query.where(on_instance.share_instance_id == instance_id))}


def states_of_rules(tx):
    """Each rule there is, with the state that users see."""
    return sorted(tuple(row) for row in tx.rows(sa.select(access_rules.c.access_to, worst())))


def told_wrong(tx, operation):
    """Whether its end was told once, as what it was; and its start, where that is told when it is queued."""
    tells = OPERATIONS[operation.kind].notifies
    if tells is None:
        return []
    asked = operation.request_id
    since = operation.created_at  # whoever asked for nothing by a request has asked for all of those before
    found = [row for row in told.newest_first(tx, resource_id=operation.resource_id) if row.created_at >= since]
    types = [row.event_type for row in found if row.request_id == asked]
    args = msgspec.convert(operation.args, OPERATIONS[operation.kind].args)
    end = tells.named(args, "end" if operation.state == "done" else "error")
    wanted = [end, *([tells.named(args, "start")] if tells.starts else [])]
    if sorted(kind for kind in types if tells.starts or not kind.endswith(".start")) == sorted(wanted):
        return []
    return [f"{operation.kind} is {operation.state} and told {types}, not {wanted}"]


def stuck(tx):
    """Whatever says that something is under way, when nothing is."""
    t = rows.t
    leased = (t.c.owner.is_not(None), t.c.lease_until.is_not(None), t.c.wait.is_not(None))
    live = sa.or_(t.c.state.in_(rows.LIVE), *leased)
    held, waited = operation_keys.c.key, operation_waits.c.condition
    busy = share_instances.c.status.in_(sorted(SHARE_INSTANCE.busy))
    syncing = share_instances.c.access_rules_status == "syncing"
    pending = instance_access_rules.c.state.in_(PENDING)
    gone = sa.and_(access_rules.c.is_denied, worst().not_in(["error", *PENDING]))
    attaching = attachments.c.state.in_(sorted(ATTACHMENT.busy))
    changing = clusters.c.status.in_(sorted(CLUSTER.busy))
    return [
        *(
            f"stuck: operation {row.kind} is {row.state}"
            for row in tx.rows(sa.select(t).where(live, sa.not_(_FOR_LATE_CALLS)))
        ),
        *(f"leaked: key {row.key}" for row in tx.rows(sa.select(held))),
        *(f"leaked: wait for {row.condition}" for row in tx.rows(sa.select(waited))),
        *(f"stuck: {row.id} is {row.status}" for row in tx.rows(sa.select(share_instances).where(busy))),
        *(f"stuck: the rules of {row.id} are syncing" for row in tx.rows(sa.select(share_instances).where(syncing))),
        *(f"stuck: {row.host} is ensuring" for row in tx.rows(sa.select(services).where(services.c.ensuring))),
        *(f"stuck: attachment {row.id} is {row.state}" for row in tx.rows(sa.select(attachments).where(attaching))),
        *(f"stuck: cluster {row.id} is {row.status}" for row in tx.rows(sa.select(clusters).where(changing))),
        *(
            f"stuck: rule {row.access_rule_id} is {row.state} on {row.share_instance_id}"
            for row in tx.rows(sa.select(instance_access_rules).where(pending))
        ),
        *(f"leaked: rule {row.access_to} is denied" for row in tx.rows(sa.select(access_rules).where(gone))),
    ]


# What stands on its hypervisor for a share that a guest has.
HANDED = {"virtiofs": ["chardev", "device", "virtiofsd"]}


def left_on_servers(tx, nodes):
    """Mounts, devices and rules that no attachment explains, and attachments that are not so."""
    rows = {row.id: row for row in tx.rows(sa.select(attachments))}
    mounted, handed = {line["name"]: line for line in nodes.tables().values()}, nodes.handed()
    remembered = {row.id for row in tx.rows(sa.select(orphaned_mounts))}
    strange = mounted.keys() - rows.keys() - remembered
    found = [f"leaked: a mount of {name}, which is no attachment" for name in strange]
    for row in rows.values():
        if row.state == "active" and mounted.get(row.id, {}).get("source") != row.source:
            found.append(f"attachment {row.id} is active, but its machine has {mounted.get(row.id)}")
        if row.state == "active" and handed.get(row.id, []) != HANDED.get(row.mode, []):
            found.append(f"attachment {row.id} is active, but for its guest there is {handed.get(row.id)}")
    known = rows.keys() | remembered
    certified = nodes.certified()
    found += [f"leaked: the certificate of {name}, which is no attachment" for name in certified - known]
    found += [f"leaked: {handed[name]} of {name}, which is no attachment" for name in handed.keys() - known]
    needed = {(row.share_id, address) for row in rows.values() for address in row.addresses}
    made = sa.select(access_rules).where(access_rules.c.made_for.is_not(None))
    for rule in tx.rows(made):
        if (rule.share_id, rule.access_to) not in needed:
            found.append(f"leaked: rule for {rule.access_to}, which no attachment needs")
    return found


def counted_wrong(tx):
    """Quotas, pools and driver data that are not those of the shares there are."""
    found = [f"leaked: quota {difference}" for difference in quotas.differences(tx)]
    if wrong := attachment_counts.difference(tx):
        found.append(f"leaked: attachments {wrong}")
    held = (
        sa.select(sa.func.coalesce(sa.func.sum(shares.c.size), 0))
        .join(share_instances, share_instances.c.share_id == shares.c.id)
        .where(share_instances.c.host == pools.c.host)
        .correlate(pools)
        .scalar_subquery()
    )
    for row in tx.rows(sa.select(pools.c.host, pools.c.provisioned_gib, held.label("held"))):
        if row.provisioned_gib != row.held:
            found.append(f"leaked: pool {row.host} counts {row.provisioned_gib} GiB, its shares have {row.held}")
    known = sa.union(sa.select(share_instances.c.id), sa.select(snapshot_instances.c.id))
    for row in tx.rows(sa.select(driver_data).where(driver_data.c.resource_id.not_in(known))):
        found.append(f"leaked: driver data of {row.resource_id}, which is no share instance and no snapshot")
    return found
