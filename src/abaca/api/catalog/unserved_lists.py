# SPDX-License-Identifier: Apache-2.0
"""Lists of what is not served yet, which are empty: clients ask for them before they show anything else of a project.

All other calls about these say that they are not served (api/unserved.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from abaca.db.engine.statements import Row
from abaca.http.pipeline import Call
from abaca.http.routing import Options, Resource
from abaca.http.wire import Many, View
from abaca.policy import Rule, reader

GROUPS = reader("share_group:get_all", "List share groups, of which there are none yet.")
GROUP_SNAPSHOTS = reader("share_group_snapshot:get_all", "List share group snapshots, of which there are none yet.")
BACKUPS = reader("share_backup:get_all", "List share backups, of which there are none yet.")
QOS_TYPES = reader("qos_type:index", "List types of quality of service, of which there are none yet.")
REPLICAS = reader("share_replica:get_all", "List share replicas, of which there are none yet.")


class NotServedView(View):
    """Something that is not served yet."""

    id: str


def _nothing(_call: Call) -> Sequence[Row]:
    """Nothing, since none can be made yet."""
    return ()


def _list(name: str, path: str, rule: Rule, key: str, versions: Options) -> Resource:
    resource = Resource(name, path, **versions)
    resource.get(policy=rule, view=Many(key, NotServedView))(_nothing)
    return resource


def _lists(name: str, path: str, rule: Rule, key: str, versions: Options) -> Resource:
    resource = _list(name, path, rule, key, versions)
    resource.get("/detail", policy=rule, view=Many(key, NotServedView))(_nothing)
    return resource


_GROUPS = Options(since="2.31", experimental=("2.31", "2.54"))
_REPLICAS = Options(since="2.11", experimental=("2.11", "2.55"))
_BACKUPS = Options(since="2.80", experimental=("2.80", None))

RESOURCES = (
    _lists("share groups", "/share-groups", GROUPS, "share_groups", _GROUPS),
    _lists("share group snapshots", "/share-group-snapshots", GROUP_SNAPSHOTS, "share_group_snapshots", _GROUPS),
    _lists("share replicas", "/share-replicas", REPLICAS, "share_replicas", _REPLICAS),
    _lists("share backups", "/share-backups", BACKUPS, "share_backups", _BACKUPS),
    _list("types of quality of service", "/qos-types", QOS_TYPES, "qos_types", Options(since="2.94")),
)
