# SPDX-License-Identifier: Apache-2.0
"""An answer tells what its request did, not what became of that meanwhile."""

from abaca.db.engine.database import Wakeup
from tests.api.world import NEWEST, World, world
from tests.conftest import wait_until

VERSION = {"x-openstack-manila-api-version": NEWEST}


class FastWorker:
    """A wake-up that returns when the worker is done: as if it were always faster than the answer."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.real: Wakeup = made.db.wakeup
        self.before_commit = self.real.before_commit
        self.close = self.real.close

    def after_commit(self, queues):
        self.real.after_commit(queues)
        wait_until(lambda: self.made.number("SELECT count(*) FROM operations WHERE finished_at IS NULL") == 0)


def test_a_new_share_is_answered_as_it_was_accepted(tmp_path):
    with world(tmp_path, worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **VERSION)
        made.db.wakeup = FastWorker(made)
        answer = made.ask("member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}, **VERSION)
        assert answer.body["share"]["status"] == "creating"
        shown = made.ask("member", "GET", f"/shares/{answer.body['share']['id']}", **VERSION)
        assert shown.body["share"]["status"] == "available"
