# SPDX-License-Identifier: Apache-2.0
"""Many servers registered or changed at once, all or none: what `abaca server add` and `import` ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from abaca import errors
from abaca.api.attachments import servers
from abaca.db.attachments import servers as db
from abaca.db.engine.database import Tx
from abaca.domain.attachments import servers as domain
from abaca.domain.attachments.servers import RegisteredServer
from abaca.domain.metadata import check_size
from abaca.http.bodies import Body, Flag, Object, Whole
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View

RESOURCE = Resource("registered servers", "/servers/register")

MOST_SERVERS = 1000
_REQUIRED = ("name", "project_id", "addresses")


class _Tried(Exception):
    """All of them can be registered; none is."""


class RegisteredView(View):
    """What became of a server; `warnings` say what is odd, such as an address that another one has too."""

    id: str
    name: str
    result: Literal["registered", "changed", "unchanged"]
    warnings: list[str]


class Register(Body, unknown="refuse"):
    """The servers, each as when one is registered, with its project. With `dry_run` they are only checked.

    `first_number` is what errors call the first of them by: a long file comes in several requests.
    """

    servers: list[Object]
    dry_run: Flag = False
    first_number: Whole = 1


@RESOURCE.post(policy=servers.CREATE, view=Plain("servers", list[RegisteredView]), body=Register)
def register(call: Call, body: Register) -> list[dict[str, object]]:
    """Register servers, or change those that their projects have by these names; what is not said of one stays.

    Where one is refused, nothing is changed at all.
    """
    servers.refuse_others(call)
    call.require(servers.UPDATE)
    if len(body.servers) > MOST_SERVERS:
        raise errors.Invalid(f"'servers' may hold {MOST_SERVERS} at once.")
    done: list[dict[str, object]] = []
    try:
        with call.db.write() as tx:
            for number, said in enumerate(body.servers, body.first_number):
                done.append(_numbered(call, tx, number, said))
            for one in done:
                one["warnings"] = _doubts(tx, str(one["id"]))
            if body.dry_run:
                raise _Tried
    except _Tried:
        return done
    return done


def _numbered(call: Call, tx: Tx, number: int, said: Mapping[str, object]) -> dict[str, object]:
    try:
        return _register(call, tx, said)
    except errors.AbacaError as error:
        named = said.get("name", "without a name")
        error.message = f"Server {number} ({str(named)[:64]}): {error.message} Nothing is changed."
        raise


def _register(call: Call, tx: Tx, said: Mapping[str, object]) -> dict[str, object]:
    values, at = domain.check(said, str(call.settings.compute.key_directory))
    for name in _REQUIRED:
        if name not in said:
            raise errors.Invalid(f"'{name}' is required.")
    if at is None:
        raise errors.Invalid("'addresses' is required.")
    limits = call.settings.limits
    if "metadata" in values:
        check_size(values["metadata"], most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    row = db.SERVERS.entity(tx, RegisteredServer, {"project_id": values["project_id"], "name": values["name"]})
    if row is None:
        new = {**domain.DEFAULTS, **values, "user_id": call.caller.user_id}
        return {"id": db.create(tx, new, at), "name": values["name"], "result": "registered"}
    is_so = all(getattr(row, name) == value for name, value in values.items())
    if is_so and tuple(db.addresses(tx, [row.id])[row.id]) == at:
        return {"id": row.id, "name": row.name, "result": "unchanged"}
    db.update(tx, row.id, values, at)
    return {"id": row.id, "name": row.name, "result": "changed"}


def _doubts(tx: Tx, server_id: str) -> list[str]:
    """Which of a server's addresses are another's as well: whoever lets one in lets in both."""
    return [
        f"{ip} is an address of server {name} ({other}) of project {project} too"
        for ip, other, name, project in db.with_the_same_address(tx, server_id)
    ]
