# SPDX-License-Identifier: Apache-2.0
"""How operations on snapshots come about, and what is counted of all things."""

# What shares, rules and locations have: the count of that is looked at after each case.
COUNTED = {"metadata": "is counted"}


def a_share_for_snapshots(theatre, size=3, share_type="copied"):
    body = {"share": {"share_proto": "NFS", "size": size, "share_type": share_type, "metadata": COUNTED}}
    share_id = theatre.ask("POST", "/shares", body)["share"]["id"]
    theatre.until_ended("share-create", share_id)
    return share_id


def take_snapshot(theatre, share_id):
    body = {"snapshot": {"share_id": share_id, "metadata": COUNTED}}
    return theatre.ask("POST", "/snapshots", body)["snapshot"]["id"]


def a_snapshot(theatre):
    """A share, and its snapshot."""
    share_id = a_share_for_snapshots(theatre)
    snapshot_id = take_snapshot(theatre, share_id)
    theatre.until_ended("snapshot-create", snapshot_id)
    return share_id, snapshot_id


def allow_snapshot(theatre, snapshot_id, to):
    body = {"allow_access": {"access_type": "ip", "access_to": to}}
    return theatre.ask("POST", f"/snapshots/{snapshot_id}/action", body)["snapshot_access"]["id"]


def a_snapshot_with_rules(theatre):
    share_id, snapshot_id = a_snapshot(theatre)
    rule = allow_snapshot(theatre, snapshot_id, "10.0.0.1")
    theatre.settle()
    return share_id, snapshot_id, rule


def an_inheriting_snapshot(theatre):
    """A share with rules, by which its snapshot can be mounted."""
    share_id = a_share_for_snapshots(theatre, share_type="inherited")
    rules = []
    for to in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        body = {"allow_access": {"access_type": "ip", "access_to": to}}
        rules.append(theatre.ask("POST", f"/shares/{share_id}/action", body)["access"]["id"])
    theatre.settle()
    theatre.until_ended("snapshot-create", take_snapshot(theatre, share_id))
    return share_id, rules


def change_snapshot_rules(theatre, prepared):
    """One is denied and one added: a single operation takes both."""
    _, snapshot_id, rule = prepared
    theatre.ask("POST", f"/snapshots/{snapshot_id}/action", {"deny_access": {"access_id": rule}})
    allow_snapshot(theatre, snapshot_id, "10.0.0.2")
    return snapshot_id


def clone(theatre, prepared):
    body = {"share": {"share_proto": "NFS", "size": 4, "snapshot_id": prepared[1], "metadata": COUNTED}}
    return theatre.ask("POST", "/shares", body)["share"]["id"]


def delete_snapshot(theatre, prepared):
    theatre.ask("DELETE", f"/snapshots/{prepared[1]}")
    return prepared[1]
