# SPDX-License-Identifier: Apache-2.0
"""Servers as Nova's clients know them, wherever the compute plug-in has them from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abaca import errors, policy
from abaca.api.compute import server_filters
from abaca.api.compute.server_filters import ServerFilters
from abaca.api.compute.server_views import STATES, BriefView, ServerByItselfView, ServerView, share_status
from abaca.compute import contract
from abaca.db.attachments import attachments
from abaca.http import paging
from abaca.http.bodies import flag
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Feature, Many, One

UNKNOWN_QUERIES_ARE_REFUSED = Feature(
    "unknown_queries_are_refused", "2.75", "A list may be asked only for what is known; before, the rest was ignored."
)

UNKNOWN_STATUSES_ARE_REFUSED = Feature(
    "unknown_statuses_are_refused", "2.38", "A status that no server has is refused; before, the list was empty."
)

INDEX = policy.reader("os_compute_api:servers:index", "List servers.")
DETAIL = policy.reader("os_compute_api:servers:detail", "List servers with all that is known of them.")
SHOW = policy.reader("os_compute_api:servers:show", "See a server.")
INDEX_ALL = policy.admin("os_compute_api:servers:index:get_all_tenants", "List the servers of all projects.")
DETAIL_ALL = policy.admin("os_compute_api:servers:detail:get_all_tenants", "The same with all that is known of them.")

RESOURCE = Resource("servers", "/servers", rules=(INDEX_ALL, DETAIL_ALL), since="2.1")

# Names that lists can be sorted by, and what they are called here.
_SORTS = {name: name for name in contract.SORTS} | {"uuid": "id", "display_name": "name", "vm_state": "status"}


@RESOURCE.get(policy=INDEX, view=Many("servers", BriefView, links="servers_links"), filters=ServerFilters)
def index(call: Call, filters: dict[str, Any]) -> Listed:
    """Servers by id and name, the newest first."""
    return _list(call, filters, INDEX_ALL)


@RESOURCE.get("/detail", policy=DETAIL, view=Many("servers", ServerView, links="servers_links"), filters=ServerFilters)
def detail(call: Call, filters: dict[str, Any]) -> Listed:
    """Servers with all that is known of them, the newest first."""
    return _list(call, filters, DETAIL_ALL)


@RESOURCE.get("/{server_id}", policy=SHOW, view=One("server", ServerByItselfView))
def show(call: Call, server_id: str) -> tuple[object, ...]:
    """One server."""
    server = find(call, server_id)
    _note_shares(call, [server])
    return _row(call, server)


def find(call: Call, server_id: str) -> contract.Server:
    """The server, if the caller may use the call's route in its project. Raises NotFound."""
    server = source(call).show(server_id)
    if server is None:
        raise errors.NotFound(resource="Instance", id=server_id)
    call.visible(server.project_id, "Instance", server_id)
    return server


def source(call: Call) -> contract.Compute:
    """The compute plug-in."""
    compute: contract.Compute = call.parts.extras["compute"]
    return compute


def _list(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> Listed:
    if call.has(UNKNOWN_QUERIES_ARE_REFUSED):
        unknown = sorted(set(call.query) - server_filters.KNOWN)
        if unknown:
            raise errors.Invalid(f"Nothing is known of {unknown[0][:64]!r} here.")
    wanted = _wanted(call, filters, of_all)
    if wanted is None or call.page.limit == 0:
        return Listed([], is_marked=True)
    found = source(call).list(wanted)
    if "addresses" in call.columns:  # all that is known of them
        _note_shares(call, found)
    following = found[-1].id if found and len(found) == wanted.limit else None
    return Listed([_row(call, server) for server in found], is_marked=True, next_marker=following)


def _note_shares(call: Call, found: Sequence[contract.Server]) -> None:
    """Leave for the view which shares these servers have."""
    noted: dict[str, list[dict[str, str]]] = {}
    with call.db.read() as tx:
        for row in attachments.of_servers(tx, [server.id for server in found]):
            said = {"id": row.share_id, "mount_point": row.mount_point, "tag": row.tag}
            noted.setdefault(row.server_id, []).append({**said, "status": share_status(call, row.state)})
    call.notes["shares_attached"] = noted


def _row(call: Call, server: contract.Server) -> tuple[object, ...]:
    return tuple(getattr(server, name) for name in call.columns)


def _wanted(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> contract.Wanted | None:
    """What the query asks of the plug-in; None when nothing can be so."""
    if filters.get("deleted", "false").lower() in paging.TRUE and call.caller.is_admin:
        return None
    statuses = _statuses(call)
    if statuses == ():
        return None
    sort_key = call.page.sort_key
    if sort_key not in _SORTS:
        raise errors.Invalid(f"'sort_key' must be one of: {', '.join(sorted(_SORTS))}.")
    since, before = server_filters.time(filters, "changes_since"), server_filters.time(filters, "changes_before")
    if since is not None and before is not None and since > before:
        raise errors.Invalid("'changes-since' must not be after 'changes-before'.")
    return contract.Wanted(
        project_id=_project(call, filters, of_all),
        user_id=filters.get("user_id"),
        name=filters.get("name", filters.get("display_name")),
        only=server_filters.predicate(filters),
        statuses=statuses,
        availability_zone=filters.get("availability_zone"),
        changed_since=since,
        changed_before=before,
        limit=call.page.limit or call.settings.osapi_max_limit,
        marker=call.page.marker or None,
        sort_key=_SORTS[sort_key],
        descending=call.page.descending,
    )


def _statuses(call: Call) -> tuple[str, ...] | None:
    """Which are asked for, none of them if no server can have one; None: any. Raises Invalid, Forbidden."""
    said = call.request.params.get("status")
    if said is None:
        return None
    asked = {one.upper() for one in ([said] if isinstance(said, str) else said)}
    if asked == {"DELETED"} and not call.caller.is_admin:
        raise errors.Forbidden("Only administrators may ask for servers that are deleted.")
    known = tuple(sorted(asked & STATES.keys()))
    if not known and call.has(UNKNOWN_STATUSES_ARE_REFUSED):
        raise errors.Invalid(f"No server has such a 'status'. It is one of: {', '.join(sorted(STATES))}.")
    return known


def _project(call: Call, filters: dict[str, Any], of_all: policy.Rule) -> str | None:
    """Whose servers: the caller's own unless an administrator asks for others."""
    said = call.query.get("all_tenants")
    named: str | None = filters.get("project_id", filters.get("tenant_id"))
    if said is not None and (said == "" or flag("all_tenants", said)):
        call.require(of_all)
        return named
    return call.caller.project_id
