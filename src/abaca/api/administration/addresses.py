# SPDX-License-Identifier: Apache-2.0
"""The addresses of a back end: from which its shares can be mounted, and who is mounted from one that shall go."""

from __future__ import annotations

from abaca import errors, policy
from abaca.db.administration import services
from abaca.db.attachments import addresses as db
from abaca.db.engine.database import Tx
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, View

INDEX = policy.admin("backend:get_addresses", "See from which addresses the shares of a back end are mounted.")

RESOURCE = Resource("addresses of back ends", "/backends")
# Of those that are mounted from an address that is not exported any more, so many are named.
MOST_NAMED = 50


class LeftView(View):
    """An attachment that is mounted from an address that is not exported any more."""

    id: str
    server_id: str
    mount_point: str
    state: str
    problem: str | None


class AddressView(View):
    """An address: how many export locations it has, and how many attachments are mounted from it.

    `left_behind` names those, at most fifty, where the address is not exported any more.
    """

    address: str
    exported: bool
    shares: int
    attachments: int
    not_active: int
    left_behind: list[LeftView]


@RESOURCE.get(
    "/{host}/addresses",
    policy=INDEX,
    view=Many("addresses", AddressView, links="addresses_links", counted=COUNTED),
)
def index(call: Call, host: str) -> Listed:
    """The addresses of a back end, host@backend, in their order; the `marker` is an address."""
    page = call.page
    with call.db.read() as tx:
        if services.find(tx, host) is None:
            raise errors.NotFound(f"There is no service {services.SHARE_BINARY} on host {host}.")
        with tx.turn():
            exported, mounted = db.exported(tx, host), db.mounted(tx, host)
        every = sorted({*exported, *mounted})
        known = [one for one in every if page.marker is None or one > page.marker]
        found = known[: page.limit]
        rows = [_row(call, tx, host, one, exported.get(one, 0), mounted.get(one, db.Mounted(0, 0))) for one in found]
    next_marker = found[-1] if found and len(known) > len(found) else None
    return Listed(rows, call.count(lambda _: len(every)), is_marked=True, next_marker=next_marker)


def _row(call: Call, tx: Tx, host: str, address: str, exported: int, mounted: db.Mounted) -> list[object]:
    is_left = not exported and mounted.number
    left = db.mounted_from(tx, host, address, MOST_NAMED) if is_left else []
    shown: dict[str, object] = {
        "address": address,
        "exported": exported > 0,
        "shares": exported,
        "attachments": mounted.number,
        "not_active": mounted.not_active,
        "left_behind": [
            {
                "id": one.id,
                "server_id": one.server_id,
                "mount_point": one.mount_point,
                "state": one.state,
                "problem": one.error_text,
            }
            for one in left
        ],
    }
    return [shown[name] for name in call.columns]
