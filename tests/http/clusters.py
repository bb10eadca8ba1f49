# SPDX-License-Identifier: Apache-2.0
"""A small application: one resource behind a door of its own, with versions, bodies in bodies and views in views."""

import contextlib
import json
from typing import Annotated, Any

from abaca import policy, settings
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.http import openapi, pipeline
from abaca.http.bodies import UNSET, Body, Flag, Gib, Name, Text, UnsetType, Whole
from abaca.http.doors import Asked, Door
from abaca.http.routing import Resource, Table
from abaca.http.wire import AdminOnly, Computed, One, Plain, Renamed, Since, Until, View
from tests.api.world import call

NEWEST = 9
ANYONE = policy.anyone("cluster:all", "Try it out.")
RESOURCE = Resource("clusters", "/clusters")


class Volume(Body):
    """A disk of each node; what is not known is dropped."""

    size: Gib
    kind: Annotated[Text, Since("2.5")] = "plain"


class NodeGroup(Body, unknown="refuse"):
    """Nodes that are alike."""

    name: Name
    count: Annotated[Whole, Renamed("2.2", "number")]
    flavor: Annotated[Text | None, Since("2.3")] = None
    volumes: list[Volume] | None = None


class Options(Body):
    """How it is made."""

    force: Flag = False


class CreateCluster(Body, key="cluster"):
    """A cluster of groups of nodes."""

    name: Name
    node_groups: list[NodeGroup]
    options: Annotated[Options | None, Since("2.7", refuse=True)] = None


class Resize(Body):
    """Each group's new number of nodes."""

    node_groups: list[NodeGroup] | UnsetType = UNSET


class NodeView(View):
    """A node."""

    name: str
    host: Annotated[str, Since("2.4"), AdminOnly()]


class GroupView(View):
    """A group of nodes."""

    name: str
    count: Annotated[int, Renamed("2.2", "number")]
    flavor: Annotated[str | None, Since("2.3")]
    nodes: Annotated[list[NodeView], Since("2.4"), Computed(lambda _, name: nodes(name), needs=("name",))]


class ResizedView(View):
    """What came of resizing: the group with most nodes where there is one, and all by their names."""

    largest: GroupView | None
    groups: Annotated[dict[str, GroupView], Since("2.3")]
    remark: Annotated[str | UnsetType, Until("2.5")]


class ClusterView(View):
    """A cluster."""

    name: str
    groups: list[GroupView]


def nodes(group):
    return [{"name": f"{group}-{number}", "host": f"host{number}"} for number in range(2)]


def shown(groups):
    return [{"name": one.name, "count": one.count, "flavor": one.flavor} for one in groups]


@RESOURCE.post(policy=ANYONE, body=CreateCluster, view=One("cluster", ClusterView))
def create(call: Any, body: CreateCluster) -> Any:
    """Make a cluster."""
    return {"name": body.name, "groups": shown(body.node_groups)}


@RESOURCE.post("/echo", policy=ANYONE, body=CreateCluster, view=Plain("sent", list[str]))
def echo(call: Any, body: CreateCluster) -> Any:
    """What was understood."""
    return [repr(one) for one in (*body.node_groups, body.options)]


@RESOURCE.action("resize", policy=ANYONE, body=Resize, view=Plain(None, ResizedView), status=202)
def resize(call: Any, id: str, body: Resize) -> Any:
    """Resize the groups."""
    groups = [] if isinstance(body.node_groups, UnsetType) else shown(body.node_groups)
    largest = max(groups, key=lambda one: one["count"], default=None)
    return {"largest": largest, "groups": {one["name"]: one for one in groups}, "remark": UNSET if groups else "none"}


@RESOURCE.action("nodes", policy=ANYONE, view=Plain("nodes", list[NodeView]))
def list_nodes(call: Any, id: str) -> Any:
    """Its nodes."""
    return nodes(id)


DESCRIBED = openapi.Described("Clusters", "/toy", "X-Version", "2.{}")
TABLE = Table([RESOURCE])


def negotiate(request, response):
    return Asked(int(request.get_header("x-version", default=f"2.{NEWEST}").removeprefix("2.")))


def description(version):
    return openapi.document(TABLE, version, DESCRIBED)


@contextlib.contextmanager
def application(directory, admin="role:admin"):
    """The application; `admin` says who counts as an administrator."""
    (directory / "policy.yaml").write_text(f"context_is_admin: {admin}\n")
    db = Database(f"sqlite:///{directory / 'abaca.sqlite'}")
    schema.create_if_empty(db)
    told = settings.Settings(auth_strategy="none", api=settings.Api(hosts=("share.example",)), config_dir=directory)
    public = {f"/toy/{number}.json": lambda _, number=number: description(number) for number in range(NEWEST + 1)}
    with contextlib.closing(db):
        yield pipeline.make_app(told, db, [Door("/toy", TABLE, negotiate, lambda base: base, public=public)])


def ask(app, path, body, version=NEWEST):
    """Status and body of the answer to a POST."""
    sent = json.dumps(body).encode()
    answer = call(app, "POST", f"/toy{path}", sent, {"content-type": "application/json", "x-version": f"2.{version}"})
    return answer.status, answer.body
