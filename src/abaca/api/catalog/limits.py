# SPDX-License-Identifier: Apache-2.0
"""The limits of the caller's own project, and what it has in use."""

from __future__ import annotations

from typing import Annotated, Any

from abaca import policy
from abaca.db.catalog import quotas as db
from abaca.domain.catalog.quotas import PROJECT
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Named, One, Since, View

INDEX = policy.anyone("limits:index", "See the limits and the use of one's own project.")


class AbsoluteView(View):
    """Each limit, and what is in use of it."""

    max_shares: Annotated[int, Named("maxTotalShares")]
    max_gigabytes: Annotated[int, Named("maxTotalShareGigabytes")]
    max_snapshots: Annotated[int, Named("maxTotalShareSnapshots")]
    max_snapshot_gigabytes: Annotated[int, Named("maxTotalSnapshotGigabytes")]
    max_share_networks: Annotated[int, Named("maxTotalShareNetworks")]
    max_share_replicas: Annotated[int, Since("2.53"), Named("maxTotalShareReplicas")]
    max_replica_gigabytes: Annotated[int, Since("2.53"), Named("maxTotalReplicaGigabytes")]
    max_share_groups: Annotated[int, Since("2.58"), Named("maxTotalShareGroups")]
    max_share_group_snapshots: Annotated[int, Since("2.58"), Named("maxTotalShareGroupSnapshots")]
    max_backups: Annotated[int, Since("2.80"), Named("maxTotalShareBackups")]
    max_backup_gigabytes: Annotated[int, Since("2.80"), Named("maxTotalBackupGigabytes")]
    shares: Annotated[int, Named("totalSharesUsed")]
    gigabytes: Annotated[int, Named("totalShareGigabytesUsed")]
    snapshots: Annotated[int, Named("totalShareSnapshotsUsed")]
    snapshot_gigabytes: Annotated[int, Named("totalSnapshotGigabytesUsed")]
    share_networks: Annotated[int, Named("totalShareNetworksUsed")]
    share_replicas: Annotated[int, Since("2.53"), Named("totalShareReplicasUsed")]
    replica_gigabytes: Annotated[int, Since("2.53"), Named("totalReplicaGigabytesUsed")]
    share_groups: Annotated[int, Since("2.58"), Named("totalShareGroupsUsed")]
    share_group_snapshots: Annotated[int, Since("2.58"), Named("totalShareGroupSnapshotsUsed")]
    backups: Annotated[int, Since("2.80"), Named("totalShareBackupsUsed")]
    backup_gigabytes: Annotated[int, Since("2.80"), Named("totalBackupGigabytesUsed")]


def _absolute(_call: Call, standing: db.Standing) -> dict[str, int]:
    return {**standing.in_use, **{f"max_{name}": limit for name, limit in standing.limits.items()}}


class LimitsView(View):
    """No rate is limited here."""

    rate: Annotated[list[Any], Computed(lambda _: [])]
    absolute: Annotated[AbsoluteView, Computed(_absolute, needs=("standing",))]


RESOURCE = Resource("limits", "/limits")


@RESOURCE.get(policy=INDEX, view=One("limits", LimitsView))
def index(call: Call) -> tuple[db.Standing]:
    """Limits and use."""
    with call.db.read() as tx:
        return (db.standing(tx, call.caller.project_id, PROJECT, call.settings.quota.limits),)
