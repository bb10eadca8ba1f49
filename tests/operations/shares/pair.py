# SPDX-License-Identifier: Apache-2.0
"""A theatre with two back ends, on which shares have an instance each: what replicas and migrations will make, planted.

The first instance is the share's own, on `alpha`; the second is put beside it on `beta`, in the database and on the
back end. Either may be left without a worker.
"""

import threading

import msgspec

from abaca import app, settings
from abaca.db.tables import shares as tables
from abaca.domain.shares.shares import status_rank
from abaca.journal.worker import Worker
from abaca.operations.parts import queue_of
from abaca.operations.registry import OPERATIONS
from abaca.reconcile.backends import Backends
from tests import planting
from tests.api.world import NEWEST
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations.theatre import NAME, TIMING, Theatre

BETA = "\n[beta]\ndriver = dummy\nexport_ips = 10.0.1.10\nadmin_export_ips = 11.0.1.11\n"
AT = {"alpha": "testhost@alpha#pool1", "beta": "testhost@beta#pool1"}


class Pair(Theatre):
    """`orders` are further options of `beta`, such as failures."""

    def __init__(self, place, directory, stack, orders=""):
        super().__init__(place, directory, None, stack)
        text = self.config.read_text()
        text = text.replace("enabled_share_backends = alpha", "enabled_share_backends = alpha, beta")
        self.config.write_text(f"{text}{BETA}{orders}\n")
        here = settings.read([self.config], environ={}).settings
        self.stage = msgspec.structs.replace(self.stage, settings=here)
        self.beta = app.driver(here, here.backends[1])
        self.beta.start()
        stack.callback(self.beta.stop)

    def enter(self, *served):
        """A worker that serves these back ends, by default both; the one before leaves."""
        self.leave()
        mine = [one for one in self.stage.settings.backends if one.name in (served or AT)]
        queues = [queue_of(app.driver(self.stage.settings, one), 4) for one in mine]
        both = [*queues, app.serve_nodes(self.stage.settings, self.db)]
        worker = Worker(NAME, self.db, both, OPERATIONS, timing=TIMING, listener=self.stage.here.listener(NAME))
        worker.on_started = Backends(self.db, queues).announce
        self.acting, self.thread = worker, threading.Thread(target=worker.run)
        self.thread.start()
        wait_until(lambda: all(one.is_started for one in worker.queues.values()), every_s=0.002)
        return worker

    # ---------------------------------------------------------------- what is planted

    def share(self, states=("active", "in_sync"), statuses=("available", "available")):
        """The id of a share with an instance on each back end, which nobody touches at the moment."""
        self.enter("alpha")
        share_id = cases.a_share(self)
        self.settle()
        self.leave()
        if "active" in states:
            planting.put(self.db, tables.shares, tables.shares.c.id == share_id, replication_type="readable")
        self.put(share_id, "alpha", states[0], statuses[0])
        self.join(share_id, states[1], statuses[1])
        return share_id

    def put(self, share_id, backend, replica_state, status):
        """Let the instance there be so."""
        t = tables.share_instances
        rank = status_rank(status, replica_state)
        where = (t.c.share_id == share_id, t.c.host == AT[backend])
        planting.put(self.db, t, *where, replica_state=replica_state, status=status, status_rank=rank)

    def join(self, share_id, replica_state, status):
        """The second instance, with a location of its own; the rules of the share do not know it."""
        so = {"status": status, "replica_state": replica_state, "status_rank": status_rank(status, replica_state)}
        return cases.another_instance(self, share_id, self.beta, host=AT["beta"], **so)

    # ---------------------------------------------------------------- what users see

    def rules(self, share_id):
        """Each rule's state by whom it lets in."""
        found = self.ask("GET", f"/share-access-rules?share_id={share_id}")["access_list"]
        return {rule["access_to"]: rule["state"] for rule in found}

    def rules_status(self, share_id):
        """What the share says of its rules, and then each instance."""
        shown = self.ask("GET", f"/shares/{share_id}")["share"]["access_rules_status"]
        found = self.ask("GET", f"/shares/{share_id}/instances", who="admin")["share_instances"]
        by_host = {one["host"]: one["access_rules_status"] for one in found}
        return shown, by_host[AT["alpha"]], by_host[AT["beta"]]

    def instance(self, share_id, backend):
        found = self.ask("GET", f"/shares/{share_id}/instances", who="admin")["share_instances"]
        return next(one["id"] for one in found if one["host"] == AT[backend])

    def let_in(self, share_id):
        """Whom each back end lets in, and at which level."""
        found = []
        for driver in (self.driver, self.beta):
            held = [one for one in driver.contents().get("instance", {}).values() if one["share_id"] == share_id]
            found.append({to: level for one in held for _, to, level in one["rules"]})
        return found

    def tries(self, who, method, path, body=None, version=NEWEST):
        """The status of the answer, and what it says."""
        answer = self.world.ask(who, method, path, body, **{"x-openstack-manila-api-version": version})
        return answer.status, answer.body
