# SPDX-License-Identifier: Apache-2.0
"""Addresses that are kept elsewhere for share servers that are gone: found, and taken back where that is proven.

That a share server's row is gone proves nothing: the database may be an old one, brought back from a backup. What an
operation of ours has deleted is proven as long as the journal remembers it; the rest is told, and stays.
This may run in any number of workers at any time: to take back what is gone already is no error.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from abaca.db.journal import operations
from abaca.db.networks import allocations

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.domain.networks.allocations import Allocation
    from abaca.networks.contract import Held, NetworkPlugin

T = TypeVar("T")
log = logging.getLogger(__name__)

# What deletes a share server.
DELETES = ("share-server-delete",)
# So many are looked up in one statement.
PAGE = 500

# Of a server that we have deleted; of one that nobody here remembers; of one that is there, which knows nothing of it;
# had by a server, and gone where it was kept; kept for a server that was given up and still answers there.
Kind = Literal["leaked", "unknown", "spare", "lost", "left"]


class Finding(msgspec.Struct, frozen=True):
    """An address, or something that holds some, where the database and the plug-in differ.

    Of one that was left the share server is what its back end calls it.
    """

    kind: Kind
    share_server_id: str
    addresses: str
    id: str
    is_removed: bool = False


class NetworkAllocations:
    """Compares what a network plug-in keeps elsewhere with the database."""

    def __init__(self, db: Database, plugin: NetworkPlugin) -> None:
        self._db = db
        self._plugin = plugin

    def heal(self) -> int:
        """Take back what is proven to be leaked; how many there were. Looks up no more than the plug-in holds."""
        held = self._plugin.held()
        found = [] if held is None else list(self._beside(held, with_unknown=False))
        for one in found:
            if one.is_removed:
                log.warning("share_server=%s: its address %s was left behind, and is free now", *_of(one))
        return sum(one.is_removed for one in found)

    def sweep(self, *, is_dry: bool = False, with_unknown: bool = False) -> Iterator[Finding]:
        """All differences. What is leaked is taken back unless `is_dry`; `with_unknown` what nobody remembers, too.

        What was left is told, and stays until somebody says that its server is gone.
        """
        before: dict[str, tuple[str, str]] = {}
        for row in self._rows():
            if row.share_server_id is None:
                yield Finding("left", f"{row.left_identifier} on {row.left_host}", row.ip_address, row.id)
            else:
                before[row.id] = (row.share_server_id, row.ip_address)
        held = self._plugin.held()
        if held is None:
            return
        yield from self._beside(held, with_unknown=with_unknown, is_dry=is_dry)
        gone = before.keys() - {one.id for one in held}
        with self._db.read() as tx:
            # who has given theirs back meanwhile has lost nothing
            for page in _pages(sorted(gone)):
                for row_id in sorted(allocations.among(tx, page)):
                    yield Finding("lost", *before[row_id], row_id)

    def _rows(self) -> Iterator[Allocation]:
        """All rows, in the order of their ids."""
        after: str | None = ""
        while after is not None:
            with self._db.read() as tx:
                page = allocations.page(tx, after, PAGE)
            yield from page
            after = page[-1].id if page else None

    def _beside(self, held: Iterable[Held], *, with_unknown: bool, is_dry: bool = False) -> Iterator[Finding]:
        """What is held and is no row. The server of whatever is held was there before it."""
        for page in _pages(held):
            server_ids = list({one.server_id for one in page})
            with self._db.read() as tx:
                statuses = allocations.servers(tx, server_ids)
                written = allocations.among(tx, [one.id for one in page])
                gone = [server_id for server_id in server_ids if server_id not in statuses]
                deleted = {one.resource_id for one in operations.done_on(tx, gone, DELETES)} if gone else set()
            for one in page:
                if one.server_id not in statuses and one.id in written:
                    continue  # left by that server, which was given up
                if one.server_id not in statuses:
                    kind: Kind = "leaked" if one.server_id in deleted else "unknown"
                    goes = not is_dry and (kind == "leaked" or with_unknown)
                    if goes:
                        self._plugin.release(one)
                    yield Finding(kind, one.server_id, one.addresses, one.id, goes)
                elif one.id not in written and statuses[one.server_id] in ("active", "error"):
                    yield Finding("spare", one.server_id, one.addresses, one.id)


def _of(finding: Finding) -> tuple[str, str]:
    return finding.share_server_id, finding.addresses


def _pages(all_of: Iterable[T]) -> Iterator[list[T]]:
    left = iter(all_of)
    while page := list(itertools.islice(left, PAGE)):
        yield page
