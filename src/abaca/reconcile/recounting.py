# SPDX-License-Identifier: Apache-2.0
"""What is counted becomes what is there, beside whoever uses it.

First all is looked through without a lock. What seems to be wrong is looked at again, a project or a pool in a
transaction of its own in which nobody changes its count: only there requests wait, for as long as one project takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from abaca.db.administration import pools
from abaca.db.attachments import attachment_counts
from abaca.db.catalog import quotas

if TYPE_CHECKING:
    from abaca.db.engine.database import Database


class Recounted(NamedTuple):
    """What was wrong."""

    quotas: list[quotas.Difference]
    pools: list[pools.Difference]
    attachments: attachment_counts.Difference | None


def recount(db: Database, *, is_dry: bool = False) -> Recounted:
    """Make all counts right; with `is_dry` only say what is wrong."""
    with db.read() as tx:
        projects = dict.fromkeys(one.project_id for one in quotas.differences(tx))
        hosts = [one.host for one in pools.differences(tx)]
    of_quotas: list[quotas.Difference] = []
    for project_id in projects:
        with db.write() as tx:
            if is_dry:
                quotas.hold(tx, project_id)
                of_quotas += quotas.differences(tx, project_id)
            else:
                of_quotas += quotas.recount(tx, project_id)
    of_pools: list[pools.Difference] = []
    for host in hosts:
        with db.write() as tx:
            of_pools += pools.differences(tx, host) if is_dry else pools.recount(tx, host)
    with db.write() as tx:
        attached = attachment_counts.difference(tx) if is_dry else attachment_counts.recount(tx)
    return Recounted(of_quotas, of_pools, attached)
