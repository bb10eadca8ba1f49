# SPDX-License-Identifier: Apache-2.0
"""Rows of the journal for the tests of its statements: queued, taken, and where they stand."""

from abaca.db.journal import claims, operations, runs

KINDS = ["work"]


def add(tx, key="k", queue="q", **more):
    return operations.add(
        tx,
        {"kind": "work", "queue": queue, "keys": [key], "args": {}, "resource_type": "t", "resource_id": key, **more},
    )


def queue_up(db, *keys, **more):
    with db.write() as tx:
        return [add(tx, key, **more) for key in keys]


def claim(db, most=100, owner="w#1", queue="q", now_s=1000.0, lease_s=30.0):
    with db.write() as tx:
        return claim_in(tx, most, owner, queue, now_s, lease_s)


def claim_in(tx, most=100, owner="w#1", queue="q", now_s=1000.0, lease_s=30.0):
    claims.promote(tx, [queue], now_s)
    lease = claims.Lease(owner=owner, now_s=now_s, until_s=now_s + lease_s)
    return claims.claim(tx, queue, KINDS, most, lease)


def show(db, op_id):
    with db.read() as tx:
        return operations.show(tx, op_id)


def held(*keys, parent_id=None):
    return runs.Held(keys=keys, parent_id=parent_id, has_waits=False)


def place(step=0, direction="do", attempt=0, data=None, error=None):
    return runs.Place(step=step, direction=direction, attempt=attempt, data=data or {}, error=error)
