# SPDX-License-Identifier: Apache-2.0
"""A world with something of everything, of which tests ask what should change nothing."""

import hashlib

import pytest
import sqlalchemy as sa

from abaca.db import tables
from abaca.db.administration import services
from abaca.db.tables import administration as administration_tables
from tests.api import seeds
from tests.api.test_surface import ALL, asked, is_newest, start
from tests.api.world import call
from tests.api.world import world as a_world
from tests.databases import fast_directory, on_postgres, on_sqlite, place


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def planted(request):
    """A world with something of everything, whose worker went home long ago: nothing changes by itself."""
    with fast_directory() as directory:
        yield from at_rest(request, directory)


def at_rest(request, directory):
    """That world, in a directory of its own."""
    more = ""
    if request.param == "postgresql":
        more = f"[database]\nconnection = {place('postgresql', directory, request).url}"
    with a_world(directory, worker=True, more=more) as busy:
        things = {**seeds.plant(busy), **of_everybody(busy)}
    with a_world(directory, worker=False, more=more) as made:
        made.things = things
        with made.db.write() as tx:
            tx.execute(sa.update(administration_tables.services).values(heartbeat_at=services.NEVER))
        yield made


IMAGE = "3d1f4c52-8b7e-4a63-9c0d-2e5a6b7c8d9e"


def of_everybody(busy):
    """What stands in the paths that belong to no project."""
    kinds = busy.ask("admin", "GET", "/types").body["share_types"]
    kind = next(kind["id"] for kind in kinds if kind["name"] == "default")
    return {
        "/types/{type_id}": kind,
        "/types/{type_id}/extra_specs/{key}": "snapshot_support",
        "/quota-class-sets/{class_name}": "default",
        "/flavors/{flavor_id}": "inventory",
        "/os-quota-class-sets/{class_name}": "default",
        "/plugins/{name}": "abaca",
        "/plugins/{name}/{release}": "1.0",
        "/images/{id}": _image(busy),
    }


def _image(busy):
    """One that the project has registered, as others may for themselves."""
    answer = busy.ask("member", "POST", f"//data-processing/v2/images/{IMAGE}", {"username": "ubuntu"})
    return answer.body["image"]["id"]


@pytest.fixture
def unchanged(planted):
    """The whole database, the same before and after."""
    before = checksum(planted.db)
    yield
    assert checksum(planted.db) == before


def checksum(db):
    digest = hashlib.sha256()
    with db.read() as tx:
        for table in tables.metadata.sorted_tables:
            for row in tx.rows(sa.select(table).order_by(*table.primary_key.columns)):
                digest.update(repr(tuple(row)).encode())
    return digest.hexdigest()


def send(world, route, path=None, raw=b"", who="admin", query="", **headers):
    """One request to a route, by default as the administrator of the project whose things stand in the path."""
    path = path if path is not None else seeds.filled(route.path, world.things)
    headers = {"content-type": "application/json", "authorization": world.passwords[who], **asked(route), **headers}
    return call(world.application, route.method, f"{start(route)[1:] or '/v2'}{path}{query}", raw, headers)


def refused(answer, *statuses):
    """The answer is a fault with a sentence, in the form that clients know."""
    assert 400 <= answer.status < 500, answer
    assert not statuses or answer.status in statuses, answer
    assert answer.headers["content-type"] == "application/json"
    if "error_name" in answer.body:
        answer.body["code"], answer.body["title"] = answer.body["error_code"], answer.body["error_name"]
        answer.body["message"] = answer.body["error_message"].partition("\nError ID: ")[0]
    said = answer.body if "title" in answer.body else next(iter(answer.body.values()))
    assert int(str(said["code"])[:3]) == answer.status
    assert said["message"].strip(".").count(" ") > 1, said
    assert len(said["message"]) < 1000, said
    return said["message"]


def routes(predicate):
    """The routes of the newest version, each once, as parameters."""
    chosen = [route for route in ALL if is_newest(route) and predicate(route)]
    return pytest.mark.parametrize("route", chosen, ids=lambda route: route.name.replace("/", ":"))
