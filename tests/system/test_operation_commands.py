# SPDX-License-Identifier: Apache-2.0
"""Work that does not get on, as an operator sees and steers it: `abaca operation list, show, retry, cancel`."""

import contextlib

import pytest

from lab import caller, processes
from tests.conftest import wait_until
from tests.system.world import World

REASON = "The back end cannot be reached: create was ordered to fail"


@pytest.fixture(scope="module")
def world(run):
    """`tired` fails to create a share five times, `gone` every time, and takes a second to delete one."""
    backends = {
        "tired": {"driver": "dummy", "failures": "create:Unreachable:5"},
        "gone": {"driver": "dummy", "failures": "create:Unreachable", "delays": "delete:1"},
    }
    sections = {"DEFAULT": {"enabled_share_backends": "tired, gone"}, **backends}
    world = World(run, sections).start()
    for name in backends:
        words = {"driver_handles_share_servers": "False", "share_backend_name": name}
        world.user.post("/types", "share_type", name=name, extra_specs=words)
    wait_until(lambda: {row["state"] for row in world.backends().values()} == {"up"}, every_s=0.2)
    return world


def waiting(world, share_id, attempt):
    """Its operation, as it is listed once it has failed so often and waits."""

    def listed():
        (row,) = world.command("operation", "list", "--resource", share_id)
        return row if row["attempt"] >= attempt and row["state"] == "waiting" else None

    return wait_until(listed, every_s=0.2)


def hurried(world, share_id, attempt):
    """The same, without waiting for most of the tries between: each is told to come at once.

    The last one comes by itself: the word may come when its try has been, and would hurry the one after it.
    """
    while (row := waiting(world, share_id, 1))["attempt"] < attempt - 1:
        with contextlib.suppress(processes.LabError):
            world.abaca.command("operation", "retry", row["id"])
    return waiting(world, share_id, attempt)


def statuses_until_gone(world, share_id):
    """Every status that a share shows until there is none."""
    seen = set()

    def gone():
        try:
            seen.add(world.user.get(f"/shares/{share_id}")["status"])
        except caller.Refused as refused:
            return refused.status == 404
        return False

    wait_until(gone, every_s=0.05)
    return seen


def test_what_waits_is_listed_with_its_step_its_tries_its_problem_and_the_next_try(world):
    share_id = world.post_share(share_type="tired")
    row = hurried(world, share_id, 5)
    assert (row["kind"], row["queue"], row["step"]) == ("share-create", "here@tired", "create_on_backend")
    assert (row["attempt"], row["error_text"]) == (5, REASON)
    assert row["created_at"] < row["next_try_at"]
    shown = world.command("operation", "show", row["id"])
    assert shown["waits_for"] == "its next try"
    assert (shown["error_code"], shown["error_text"]) == ("Unreachable", REASON)
    world.abaca.command("operation", "retry", row["id"])
    world.user.wait(f"/shares/{share_id}", "available")
    (ended,) = world.operations(share_id)
    assert (ended["state"], ended["next_try_at"]) == ("done", None)
    assert ended["finished_at"] < row["next_try_at"]
    world.delete(share_id)


def test_what_is_cancelled_ends_at_once_with_the_share_in_error_and_a_message(world):
    before = world.used()
    share_id = world.post_share(share_type="gone")
    row = waiting(world, share_id, 2)
    assert world.user.get(f"/shares/{share_id}")["status"] == "creating"
    world.abaca.command("operation", "cancel", row["id"])
    assert world.settled(share_id)["status"] == "error"
    (ended,) = world.operations(share_id)
    assert (ended["state"], ended["error_text"]) == ("cancelled", "Cancelled on request.")
    (_, text), *more = world.messages(share_id)
    assert text.endswith("Cancelled on request.")
    assert more == []
    for word in ("retry", "cancel"):
        with pytest.raises(processes.LabError, match=f"Operation {row['id']} is cancelled: it "):
            world.abaca.command("operation", word, row["id"])
    world.delete(share_id)
    assert world.used() == before


def test_what_waits_for_an_earlier_operation_of_its_share_says_so(world):
    share_id = world.post_share(share_type="gone")
    first = waiting(world, share_id, 1)
    world.user.call("POST", f"/shares/{share_id}/action", {"force_delete": None})
    second, earlier = world.command("operation", "list", "--resource", share_id)
    assert earlier["id"] == first["id"]
    shown = world.command("operation", "show", second["id"])
    assert shown["waits_for"] == f"the end of {first['id']} (share-create)"
    world.abaca.command("operation", "cancel", first["id"])
    # the end of the first one says nothing of the second
    assert statuses_until_gone(world, share_id) == {"deleting"}
