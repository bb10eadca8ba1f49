# SPDX-License-Identifier: Apache-2.0
"""Where a share that is made from a snapshot lies: on the snapshot's back end, in any of its pools, nowhere else."""

import pytest

from abaca import app
from tests.api.world import NEWEST, world
from tests.conftest import wait_until

# One back end whose second pool has more room than the first, and one that has most of all.
TWO = """
pool_count = 2
pool_size_gib = 10
thin_provisioning = false
[beta]
driver = dummy
pool_size_gib = 100
thin_provisioning = false
"""
ABLE = ("snapshot_support", "create_share_from_snapshot_support")
FIRST, SECOND, ELSEWHERE = "testhost@alpha#pool1", "testhost@alpha#pool2", "testhost@beta#pool1"
UNREADABLE = "find a pool: No storage could be allocated for this share request: no pool can read the snapshot."


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("two"), worker=True, backend=TWO, enabled="alpha, beta") as made:
        wait_until(lambda: made.number("SELECT count(*) FROM pools") == 3)
        specs = {"driver_handles_share_servers": "False", **dict.fromkeys(ABLE, "True")}
        ask(made, "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}})
        yield made


@pytest.fixture(scope="module")
def alpha(here):
    """The driver of the first back end, to write what users would."""
    driver = app.driver(here.settings, next(one for one in here.settings.backends if one.name == "alpha"))
    driver.start()
    yield driver
    driver.stop()


@pytest.fixture(scope="module")
def snapshot_id(here, alpha):
    """A snapshot of 4 GiB in the first pool of the first back end, which has 6 GiB left."""
    share = new_share(here, size=4, scheduler_hints={"only_host": FIRST})
    assert (share["host"], share["status"]) == (FIRST, "available")
    alpha.use(instance_of(here, share), used_gib=2, content="then")
    made = ask(here, "POST", "/snapshots", {"snapshot": {"share_id": share["id"]}})["snapshot"]
    wait_until(lambda: ask(here, "GET", f"/snapshots/{made['id']}")["snapshot"]["status"] == "available")
    return made["id"]


def ask(here, method, path, body=None):
    answer = here.ask("admin", method, path, body, **{"x-openstack-manila-api-version": NEWEST})
    assert answer.status < 300, answer
    return answer.body


def new_share(here, **wish):
    """As an administrator sees it once it is made, or is not."""
    made = ask(here, "POST", "/shares", {"share": {"share_proto": "NFS", **wish}})["share"]
    here.settle()
    return ask(here, "GET", f"/shares/{made['id']}")["share"]


def instance_of(here, share):
    (instance,) = ask(here, "GET", f"/shares/{share['id']}/instances")["share_instances"]
    return instance["id"]


def test_it_goes_to_the_pool_that_has_room_and_has_the_content_there(here, alpha, snapshot_id):
    """Larger than the snapshot, and than what its own pool has left; the other back end has more room than both."""
    share = new_share(here, size=7, snapshot_id=snapshot_id)
    assert (share["status"], share["host"], share["size"]) == ("available", SECOND, 7)
    held = alpha.contents()["instance"][instance_of(here, share)]
    assert (held["content"], held["pool"], held["size_gib"]) == ("then", "pool2", 7)


def test_an_administrator_may_name_another_pool_of_the_back_end(here, alpha, snapshot_id):
    share = new_share(here, snapshot_id=snapshot_id, size=None, scheduler_hints={"only_host": FIRST})
    assert (share["status"], share["host"], share["size"]) == ("available", FIRST, 4)
    assert alpha.contents()["instance"][instance_of(here, share)]["content"] == "then"


@pytest.mark.parametrize(
    "wish",
    [{"size": 20}, {"size": 4, "scheduler_hints": {"only_host": ELSEWHERE}}],
    ids=["it is too large for its own", "it is named"],
)
def test_on_another_back_end_it_is_not_made(here, snapshot_id, wish):
    """That could not read the snapshot, whatever room it has; its users are told so, in the words that they know."""
    share = new_share(here, snapshot_id=snapshot_id, **wish)
    assert (share["status"], share["host"]) == ("error", None)
    (message,) = ask(here, "GET", f"/messages?resource_id={share['id']}")["messages"]
    assert (message["action_id"], message["detail_id"]) == ("001", "016")
    assert message["user_message"].startswith(UNREADABLE)
