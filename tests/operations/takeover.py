# SPDX-License-Identifier: Apache-2.0
"""How shares are given up and taken over, as administrators ask for it."""

from tests.operations.snapshot_cases import COUNTED

POOL = "testhost@alpha#pool1"


def given_up(theatre, share_id):
    """The path by which a share was mounted that is released now."""
    found = theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"]
    theatre.until_ended("share-unmanage", unmanage(theatre, share_id))
    return found[0]["path"]


def manage(theatre, path):
    """The id of the share that what is at the path becomes."""
    share = {"export_path": path, "service_host": POOL, "protocol": "NFS"}
    return theatre.ask("POST", "/shares/manage", {"share": share}, who="admin")["share"]["id"]


def unmanage(theatre, share_id):
    """Ask for it; the same id."""
    theatre.ask("POST", f"/shares/{share_id}/action", {"unmanage": None}, who="admin")
    return share_id


def snapshot_given_up(theatre, prepared):
    """A share, and where its snapshot is that is released now."""
    share_id, snapshot_id = prepared
    place = theatre.ask("GET", f"/snapshots/{snapshot_id}", who="admin")["snapshot"]["provider_location"]
    unmanage_snapshot(theatre, prepared)
    theatre.until_ended("snapshot-unmanage", snapshot_id)
    return share_id, place


def manage_snapshot(theatre, prepared):
    """The id of the snapshot that what is at the place becomes."""
    share_id, place = prepared
    wanted = {"share_id": share_id, "provider_location": place, "metadata": COUNTED}
    return theatre.ask("POST", "/snapshots/manage", {"snapshot": wanted}, who="admin")["snapshot"]["id"]


def unmanage_snapshot(theatre, prepared):
    """Ask for it; the same id."""
    theatre.ask("POST", f"/snapshots/{prepared[1]}/action", {"unmanage": None}, who="admin")
    return prepared[1]
