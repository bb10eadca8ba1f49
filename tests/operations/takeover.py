# SPDX-License-Identifier: Apache-2.0
"""How shares are given up and taken over, as administrators ask for it."""

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
