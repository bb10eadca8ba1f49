# SPDX-License-Identifier: Apache-2.0
"""Fill a database as users and workers of today would, and keep its rows for the day on which it is upgraded.

`python -m tests.db.filling` writes filled/<revision>.json with the release of a revision; what it wrote then is never
written anew. Every table gets rows: things that rest, things under way, and what an operator comes across.
"""

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa

from abaca import app
from abaca.db import migrations
from tests.api import seeds
from tests.api.world import OTHER_PROJECT, PROJECT, world
from tests.conftest import wait_until

FILLED = Path(__file__).parent / "filled"
# Nobody listens on this port: events stay to be delivered.
MORE = """
[events]
webhooks = nobody
[webhook_nobody]
url = http://127.0.0.1:9/
secret_file = {directory}/secret
"""
NEWEST = {"x-openstack-manila-api-version": "2.99"}
BACKEND = "testhost@alpha"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
PRIVATE = {
    "name": "private",
    "share_type_access:is_public": False,
    "extra_specs": {"driver_handles_share_servers": "False"},
}


def ask(made, who, method, path, body=None):
    """What the API answers to a request that it takes."""
    answer = made.ask(who, method, path, body, **NEWEST)
    assert answer.status < 300, (method, path, answer.body)
    return answer.body


def use(made):
    """What users and operators do while a worker serves them; the id of a share that is used."""
    things = seeds.plant(made)
    share_id = things["/shares/{id}"]
    type_id = ask(made, "admin", "POST", "/types", {"share_type": PRIVATE})["share_type"]["id"]
    ask(made, "admin", "POST", f"/types/{type_id}/action", {"addProjectAccess": {"project": OTHER_PROJECT}})
    for project in (PROJECT, OTHER_PROJECT):
        ask(made, "admin", "PUT", f"/quota-sets/{project}", {"quota_set": {"shares": 20, "gigabytes": -1}})
    ask(made, "admin", "PUT", "/quota-class-sets/default", {"quota_class_set": {"snapshots": 7}})
    other = {"share": {"share_proto": "CIFS", "size": 3, "share_type": type_id, "name": "übrig"}}
    ask(made, "other", "POST", "/shares", other)
    ask(made, "member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 2, "name": "binned"}})
    made.settle()
    binned = ask(made, "member", "GET", "/shares?name=binned")["shares"][0]["id"]
    ask(made, "member", "POST", f"/shares/{binned}/action", {"soft_delete": None})
    ask(made, "member", "POST", f"/shares/{share_id}/action", {"extend": {"new_size": 5}})
    made.settle()
    locked = {"resource_lock": {"resource_id": share_id, "resource_type": "share", "lock_reason": "audit"}}
    ask(made, "member", "POST", "/resource-locks", locked)
    attach(made, share_id, {"name": "mill", "addresses": ["10.0.0.78"]}, mount_point="/srv/mill", access_level="ro")
    leave_a_mount(made, share_id)
    return share_id


def leave_a_mount(made, share_id):
    """A machine goes away for good while a share is mounted on it, and the share is taken off it by force."""
    attachment_id = attach(made, share_id, {"name": "barn-door", "addresses": ["10.0.0.77"]})
    nodes = app.nodes(made.settings)
    nodes.take_away("10.0.0.77")
    nodes.close()
    ask(made, "admin", "DELETE", f"//abaca/v1/attachments/{attachment_id}?force=true")
    made.settle()


def attach(made, share_id, server, **how):
    """Register a server and attach the share to it; the attachment's id."""
    machine = {"host_key": KEY, "key": "file:/etc/abaca/keys/nodes", "ssh_host": server["addresses"][0], **server}
    server_id = ask(made, "admin", "POST", "//abaca/v1/servers", {"server": machine})["server"]["id"]
    wish = {"attachment": {"share_id": share_id, "server_id": server_id, **how}}
    attachment_id = ask(made, "member", "POST", "//abaca/v1/attachments", wish)["attachment"]["id"]
    made.settle()
    return attachment_id


def lose(made, share_id):
    """The back end has lost a share, and a dry run of ensuring finds out."""
    instance = ask(made, "admin", "GET", f"/shares/{share_id}/instances")["share_instances"][0]
    driver = app.driver(made.settings, made.settings.backends[0])
    driver.start()
    with driver.state_file.change() as records:
        records.drop("instance", instance["id"])
    driver.stop()
    ask(made, "admin", "POST", "//abaca/v1/services/ensure-shares", {"host": BACKEND, "dry_run": True})
    made.settle()


def leave_queued(made):
    """What is asked for while no worker is there waits in the journal."""
    ask(made, "member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1, "name": "queued"}})
    share_id = ask(made, "other", "GET", "/shares")["shares"][0]["id"]
    rule = {"allow_access": {"access_type": "user", "access_to": "miller", "access_level": "ro"}}
    ask(made, "other", "POST", f"/shares/{share_id}/action", rule)


def leave_running(made):
    """A worker dies while the back end makes a share: the operation runs, under a lease that nobody renews."""
    creating = "SELECT count(*) FROM operations WHERE kind = 'share-create' AND state = 'running'"
    config = str(made.directory / "abaca.conf")
    with subprocess.Popen([sys.executable, "-m", "abaca", "worker", "--config-file", config]) as worker:
        ask(made, "member", "POST", "/shares", {"share": {"share_proto": "NFS", "size": 4, "name": "half-made"}})
        wait_until(lambda: made.number(creating))
        worker.kill()


def rows(connection):
    """All rows by table, as JSON knows them; times as text."""
    found = sa.MetaData()
    found.reflect(connection)
    tables = [table for table in found.sorted_tables if table.name != "alembic_version"]
    queries = {table.name: sa.select(table).order_by(*table.primary_key.columns) for table in tables}
    return {name: [plain(row._mapping) for row in connection.execute(query)] for name, query in queries.items()}


def plain(row):
    """A row as JSON knows it."""
    return {
        name: value.isoformat(" ") if isinstance(value, datetime.datetime) else value for name, value in row.items()
    }


def fill(directory):
    """The rows of a database that was used for a while."""
    (directory / "secret").write_text("never-used-secret")
    more = MORE.format(directory=directory)
    with world(directory, worker=True, more=more) as made:
        share_id = use(made)
        lose(made, share_id)
    with world(directory, worker=False, more=more, backend="delays = create:3600") as made:
        leave_running(made)
        leave_queued(made)
        with made.db.read() as tx:
            return rows(tx.connection)


if __name__ == "__main__":
    path = FILLED / f"{migrations.HEAD}.json"
    if path.exists():
        sys.exit(f"{path} is what a database of {migrations.HEAD} held; it stays")
    with tempfile.TemporaryDirectory() as scratch:
        filled = fill(Path(scratch))
    empty = sorted(name for name, found in filled.items() if not found)
    if empty:
        sys.exit(f"These tables would stay empty; let `use` fill them: {empty}")
    path.write_text(json.dumps(filled, indent=1, ensure_ascii=False) + "\n")
