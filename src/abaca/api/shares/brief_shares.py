# SPDX-License-Identifier: Apache-2.0
"""Shares in brief, by our own door: for whoever has a name or the beginning of an id and wants the share's id."""

from __future__ import annotations

import datetime
from typing import Annotated

from abaca.api.shares.shares import LIST, LIST_ALL_PROJECTS
from abaca.db.shares import shares
from abaca.domain.shares.shares import SHARE_INSTANCE
from abaca.http.bodies import Filters, IdPrefix, Text, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, AdminOnly, Many, View

RESOURCE = Resource("shares in brief", "/shares")


class BriefShareView(View):
    """A share; `size` is in GiB."""

    id: str
    name: str | None
    project_id: str
    status: str
    size: int
    share_proto: str
    host: Annotated[str | None, AdminOnly()]
    created_at: datetime.datetime


class BriefShareFilters(Filters, unknown="refuse"):
    """What the list may be asked for; a name is compared as a whole."""

    id: Text
    id_prefix: IdPrefix
    name: Text
    status: Annotated[str, among(SHARE_INSTANCE.values)]


@RESOURCE.get(
    policy=LIST, view=Many("shares", BriefShareView, links="shares_links", counted=COUNTED), filters=BriefShareFilters
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Shares of the caller's project; administrators may ask for those of all."""
    asked = {**filters, "is_soft_deleted": False, **call.project_filter(LIST_ALL_PROJECTS)}
    with call.db.read() as tx:
        rows = shares.SHARES.rows(tx, call.columns, asked, call.page)
        return Listed(rows, call.count(lambda most: shares.SHARES.count(tx, asked, most)))
