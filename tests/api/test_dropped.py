# SPDX-License-Identifier: Apache-2.0
"""What is passed over in silence at some version is listed here, as clients were written for it; nothing else is.

A filter that is passed over finds other things than were asked for, so each is a decision.
"""

from abaca.api import routes
from abaca.http import routing, wire
from tests.api.test_surface import is_newest

SHARES = {
    "export_location_id": "2.35",
    "export_location_path": "2.35",
    "description": "2.36",
    "name~": "2.36",
    "description~": "2.36",
    "is_soft_deleted": "2.69",
    "encryption_key_ref": "2.90",
    "availability_zone": "2.97",
}
SNAPSHOTS = {"description": "2.36", "name~": "2.36", "description~": "2.36", "metadata": "2.73"}
# by route: what it takes from which version on
DROPPED = {
    "GET /messages": {"created_since": "2.52", "created_before": "2.52"},
    "GET /scheduler-stats/pools": {"share_type": "2.23"},
    "GET /scheduler-stats/pools/detail": {"share_type": "2.23"},
    "GET /services": {"ensuring": "2.93"},
    "GET /share-networks": {"name~": "2.36", "description~": "2.36"},
    "GET /share-networks/detail": {"name~": "2.36", "description~": "2.36"},
    "GET /share-servers": {"encryption_key_ref": "2.90"},
    "GET /share_instances": {"export_location_id": "2.35", "export_location_path": "2.35", "is_soft_deleted": "2.69"},
    "GET /shares": SHARES,
    "GET /shares/detail": SHARES,
    "GET /share-group-types": {"group_specs": "2.66"},
    "GET /snapshots": SNAPSHOTS,
    "GET /snapshots/detail": SNAPSHOTS,
    "POST /snapshots/manage": {"metadata": "2.73"},
    "POST /snapshots": {"metadata": "2.73"},
    "POST /shares": {
        "share_group_id": "2.31",
        "scheduler_hints": "2.65",
        "mount_point_name": "2.84",
        "encryption_key_ref": "2.90",
    },
    "POST /shares/manage": {"is_public": "2.8", "share_server_id": "2.49", "mount_point_name": "2.92"},
    "POST /share-servers/manage": {"share_network_subnet_id": "2.51"},
    "POST /shares/{id}/action allow_access": {
        "metadata": "2.45",
        "lock_visibility": "2.82",
        "lock_deletion": "2.82",
        "lock_reason": "2.82",
    },
    "POST /shares/{id}/action deny_access": {"unrestrict": "2.82"},
    "POST /shares/{id}/action extend": {"force": "2.64"},
}


def test_nothing_else_is_passed_over_in_silence():
    found = {}
    for route in filter(is_newest, routing.Table(routes.RESOURCES).routes):
        for declared in filter(None, (route.body, route.filters)):
            for field in wire.fields_of(declared):
                since = field.first(wire.Since)
                if since is None or field.since <= route.since or is_refused(declared, since):
                    continue
                found.setdefault(route.name, {})[field.name(wire.minor(since.version))] = since.version
    assert found == DROPPED


def is_refused(declared, since):
    return declared.REFUSES if since.refuse is None else since.refuse
