# SPDX-License-Identifier: Apache-2.0
"""The compute door over the plug-in for a Nova, and where its answers differ from that Nova's own."""

import contextlib
import datetime
import json

import sqlalchemy as sa

from abaca.db.tables import attachments as attachment_tables
from abaca.db.tables import shares as share_tables
from tests import planting
from tests.api.world import world
from tests.compute import web
from tests.compute.harness import KEY, cloud
from tests.compute.questions import SERVERS
from tests.compute.recorded import ADDRESS

DOOR = "/compute"
_OURS = f"http://share.example:8786{DOOR}"


@contextlib.contextmanager
def door(directory, nova):
    """A world whose servers are those of `nova`, a WSGI application, with the attachments of `SERVERS`."""
    with web.serving(nova) as url:
        file = cloud(directory / "clouds.yaml", f"{url}/v2.1")
        more = f"[compute]\nplugin = nova\nnova_clouds_file = {file}\nnova_key = {KEY}"
        with world(directory, worker=False, more=more) as made:
            _attach(made)
            yield made


def ask(made, question):
    """The door's answer to a question that was put to Nova."""
    headers = {} if question.version is None else {"openstack-api-version": f"compute {question.version}"}
    who = question.who
    if who == "wrong":
        who, headers["authorization"] = "none", "Basic d3Jvbmc6d3Jvbmc="
    return made.ask(who, question.method, f"/{DOOR}{question.target}", question.body, **headers)


def differences(theirs, ours):
    """Where our answer is another one: `path: theirs, ours`. The words of faults are our own."""
    if theirs.status != ours.status:
        yield f"status: {theirs.status}, {ours.status} {ours.body}"
        return
    for name in ("openstack-api-version", "x-openstack-nova-api-version", "vary"):
        if name in theirs.headers and theirs.headers[name] != ours.headers.get(name):
            yield f"header {name}: {theirs.headers[name]}, {ours.headers.get(name)}"
    if ("x-compute-request-id" in theirs.headers) > ("x-compute-request-id" in ours.headers):
        yield "header x-compute-request-id: missing"
    said = json.loads(json.dumps(ours.body).replace(_OURS, ADDRESS))
    yield from _bodies("", theirs.body, said)


def _bodies(path, theirs, ours):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        is_fault = theirs.keys() == ours.keys() == {"code", "message"}
        for key in sorted(theirs.keys() | ours.keys()):
            if key not in ours:
                yield f"{path}{key}: {theirs[key]!r}, missing"
            elif key not in theirs:
                yield f"{path}{key}: missing, {ours[key]!r}"
            elif not (is_fault and key == "message"):
                yield from _bodies(f"{path}{key}.", theirs[key], ours[key])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for theirs_at, ours_at in zip(theirs, ours, strict=True):
            yield from _bodies(path, theirs_at, ours_at)
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{path[:-1]}: {theirs!r}, {ours!r}"


def _attach(made):
    """What the shares of `SERVERS` are in Nova, as rows of ours."""
    now = datetime.datetime(2026, 3, 9)  # noqa: DTZ001 (naive UTC, as in all tables)
    for server in SERVERS:
        of = {"project_id": server["project_id"], "user_id": server["user_id"], "created_at": now}
        for share in server.get("shares", ()):
            kept = {"id": share["share_id"], "size": 1, "share_proto": "NFS", "metadata": {}}
            at = {"id": share["uuid"], "share_id": share["share_id"], "server_id": server["uuid"], "tag": share["tag"]}
            how = {"mode": "network", "mount_point": f"/mnt/{share['share_id']}", "access_level": "rw", "addresses": []}
            is_so = {"state": share["status"], "wanted": "attached", "source": share["export_location"]}
            with planting.by_hand(made.db) as tx:
                tx.execute(sa.insert(share_tables.shares), {**kept, **of})
                tx.execute(sa.insert(attachment_tables.attachments), {**at, **how, **is_so, **of})
