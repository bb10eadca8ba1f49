# SPDX-License-Identifier: Apache-2.0
"""How a share is handed over, with all that is counted of it."""

from tests.operations.snapshot_cases import a_snapshot


def an_offered_share(theatre):
    """With a snapshot, and both with metadata; the offer, and its key."""
    share_id, _ = a_snapshot(theatre)
    made = theatre.ask("POST", "/share-transfers", {"transfer": {"share_id": share_id}})["transfer"]
    return share_id, made["id"], made["auth_key"]


def accept_transfer(theatre, prepared):
    share_id, transfer_id, key = prepared
    theatre.ask("POST", f"/share-transfers/{transfer_id}/accept", {"accept": {"auth_key": key}}, who="other")
    return share_id
