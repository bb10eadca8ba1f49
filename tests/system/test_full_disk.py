# SPDX-License-Identifier: Apache-2.0
"""A disk that is full for a while ends no work: it is tried again, and goes on when there is room."""

import contextlib
import os
import subprocess

import pytest

from tests.api.attachments import test_attachments as door
from tests.api.world import NEWEST, working, world
from tests.conftest import wait_until
from tests.databases import postgres  # noqa: F401 (a fixture)

VERSION = {"x-openstack-manila-api-version": NEWEST}
SPECS = {"driver_handles_share_servers": "False"}


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def full(place):
    """There is no room left while the block lasts."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        assert os.statvfs(place).f_bavail == 0
        yield
    finally:
        ballast.unlink()


def test_what_was_accepted_before_the_disk_was_full_is_done_when_there_is_room_again(small_disk, tmp_path):
    """The journal is on the full disk, and so is what the dummy back end holds."""

    def ask(method, path, body=None, who="member"):
        return made.ask(who, method, path, body, **VERSION)

    with world(small_disk, worker=False, more="default_share_type = default\n") as made:
        ask("POST", "/types", {"share_type": {"name": "default", "extra_specs": SPECS}}, who="admin")
        log = small_disk / "worker.log"
        with working(made):
            wish = {"share": {"share_proto": "NFS", "size": 1}}
            ids = [ask("POST", "/shares", wish).body["share"]["id"] for _ in range(6)]
            wait_until(lambda: made.number("SELECT count(*) FROM share_instances WHERE status = 'available'") == 6)
            before = {path.name for path in small_disk.rglob("*") if path.is_file() and not path.stat().st_size}
            with full(small_disk):
                answers = {share_id: ask("DELETE", f"/shares/{share_id}") for share_id in ids}
                for answer in answers.values():
                    assert answer.status in (202, 503), answer
                refused = [answer for answer in answers.values() if answer.status == 503]
                assert refused, "the disk was not full"
                assert "no room on its disk" in refused[0].body["serviceUnavailable"]["message"]
            for share_id, answer in answers.items():
                assert answer.status == 202 or ask("DELETE", f"/shares/{share_id}").status == 202
            wait_until(lambda: made.number("SELECT count(*) FROM shares") == 0)
        after = {path.name for path in small_disk.rglob("*") if path.is_file() and not path.stat().st_size}
        assert "Traceback" not in log.read_text()
        assert after <= before | {"worker.log"}


def test_what_back_ends_and_machines_hold_waits_for_room_as_well(small_disk, postgres):  # noqa: F811
    """The journal has room elsewhere; the ledger in which the rehearsal keeps shares and mounts has none."""

    def ask(method, path, body=None, who="member"):
        return made.ask(who, method, path, body, **VERSION)

    more = f"default_share_type = default\n[database]\nconnection = {postgres.new_database()}\n"
    with world(small_disk, worker=False, more=more) as made:
        ask("POST", "/types", {"share_type": {"name": "default", "extra_specs": SPECS}}, who="admin")
        with working(made):
            wish = {"share": {"share_proto": "NFS", "size": 1}}
            kept, *ids = [ask("POST", "/shares", wish).body["share"]["id"] for _ in range(4)]
            wait_until(lambda: made.number(AVAILABLE) == 4)
            server = door.server(made)
            with full(small_disk):
                assert [ask("DELETE", f"/shares/{share_id}").status for share_id in ids] == [202] * 3
                attach = {"attachment": {"share_id": kept, "server_id": server}}
                assert ask("POST", "//abaca/v1/attachments", attach).status == 202
                wait_until(lambda: made.number(WAITING) >= 3)
            wait_until(lambda: made.number("SELECT count(*) FROM shares") == 1)
            wait_until(lambda: made.number("SELECT count(*) FROM attachments WHERE state = 'active'") == 1)
        assert made.number("SELECT count(*) FROM operations WHERE state = 'failed'") == 0
        assert "Traceback" not in (small_disk / "worker.log").read_text()


AVAILABLE = "SELECT count(*) FROM share_instances WHERE status = 'available'"
WAITING = "SELECT count(*) FROM operations WHERE state = 'waiting' AND error_text LIKE '%full%'"
