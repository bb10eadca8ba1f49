# SPDX-License-Identifier: Apache-2.0
"""What the back end of each instance has made of each rule of its share.

A rule is new on all instances that have a back end, and goes with the last that has dropped it. An instance that came
later has no rows for older rules: it takes them up with its first sync.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, columns_of
from abaca.db.shares.export_locations import IS_WRITTEN_TO
from abaca.db.tables.shares import access_rules, export_locations
from abaca.db.tables.shares import instance_access_rules as t
from abaca.db.tables.shares import share_instances as instances
from abaca.domain import metadata
from abaca.domain.shares.access_rules import ACCESS_RULE, WORST_FIRST, InstanceAccessRule, RuleInForce

STATE = moving.Mover(t.c.state, "Share access rule")
# Whom a rule lets in, in the one form for that; the release before wrote no other.
CLIENT = sa.func.coalesce(access_rules.c.client, access_rules.c.access_to).label("client")
_FIRST = ACCESS_RULE.after("none", "allow")

_OF_RULE = t.c.access_rule_id == sa.bindparam("rule", type_=t.c.access_rule_id.type)
_OF_INSTANCE = t.c.share_instance_id == sa.bindparam("instance", type_=t.c.share_instance_id.type)
_AMONG = t.c.access_rule_id.in_(sa.bindparam("rules", expanding=True))


def worst(*conditions: sa.ColumnElement[bool]) -> Column:
    """The state of a row of access_rules: the first of `WORST_FIRST` on its instances, or on those of the conditions.

    A rule that has come to none of them is queued.
    """
    # the usual state is compared first
    places: dict[object, Column] = {
        state: sa.literal_column(str(WORST_FIRST.index(state))) for state in WORST_FIRST[::-1]
    }
    of_rule = sa.select(sa.func.min(sa.case(places, value=t.c.state))).where(t.c.access_rule_id == access_rules.c.id)
    first = of_rule.where(*conditions).correlate(access_rules).scalar_subquery()
    names: dict[object, Column] = {places[state]: sa.literal_column(f"'{state}'", sa.String()) for state in places}
    return sa.case(names, value=first, else_=sa.literal_column(f"'{_FIRST}'", sa.String()))


def worst_of_share(parameter: str) -> Column:
    """The same for rules of the one share that the parameter names: mostly nothing needs to be looked up for each.

    While all instances say that their rules are in force (access_rules_sync.py), all rules are.
    """
    unsettled = sa.exists().where(
        instances.c.share_id == sa.bindparam(parameter),
        instances.c.access_rules_status != sa.literal_column("'active'"),
    )
    in_force = sa.literal_column(f"'{WORST_FIRST[-1]}'", sa.String())
    return sa.case((~unsettled.correlate(None), in_force), else_=worst())


# Those that servers mount from: of replicas the one that is written to.
IS_MOUNTED_FROM = sa.exists().where(
    instances.c.id == t.c.share_instance_id,
    IS_WRITTEN_TO,
    export_locations.c.share_instance_id == instances.c.id,
    export_locations.c.is_admin_only.is_(False),
)


def add(tx: Tx, share_id: str, rule_id: str) -> None:
    """A new rule is queued on every instance of its share that has a back end."""
    _ADD.run(tx, {"of_share": share_id, "rule": rule_id, "born_at": tx.now})


_NAMES = ("access_rule_id", "share_instance_id", "created_at")
_BORN_AT = sa.bindparam("born_at", type_=t.c.created_at.type)
_ADD = moving.added_from(
    t,
    _NAMES,
    sa.select(sa.bindparam("rule", type_=t.c.access_rule_id.type), instances.c.id, _BORN_AT).where(
        instances.c.share_id == sa.bindparam("of_share"), instances.c.host.is_not(None)
    ),
    {"state": "allow"},
)


def move(tx: Tx, rule_id: str, event: str) -> int:
    """Let `event` (`deny`, `update`) happen to a rule on each instance where its state allows it; on how many."""
    return len(_MOVE[event].run(tx, {"rule": rule_id, "at": tx.now}))


_MOVE = {event: STATE.moves(event, _OF_RULE) for event in ("deny", "update")}


def deny_all(tx: Tx, share_id: str) -> None:
    """Let `deny` happen to all rules of a share, wherever their states allow it."""
    _DENY_ALL.run(tx, {"of_share": share_id, "at": tx.now})


_DENY_ALL = STATE.moves(
    "deny",
    t.c.access_rule_id.in_(sa.select(access_rules.c.id).where(access_rules.c.share_id == sa.bindparam("of_share"))),
)


def deny_these(tx: Tx, rule_ids: Sequence[str]) -> None:
    """Let `deny` happen to some rules, wherever their states allow it."""
    _DENY_THESE.run(tx, {"rules": list(rule_ids), "at": tx.now})


_DENY_THESE = STATE.moves("deny", _AMONG)


def states(tx: Tx, rule_id: str) -> list[str]:
    """Those that a rule has, one for each instance; the worst first."""
    return sorted((row.state for row in tx.rows(_STATES, {"rule": rule_id})), key=WORST_FIRST.index)


_STATES = sa.select(t.c.state).where(_OF_RULE)


def take(tx: Tx, share_id: str, instance_id: str) -> list[InstanceAccessRule]:
    """Move whatever is queued on an instance to being worked on, and show all rules of its share as they are there."""
    given = {"of_share": share_id, "instance": instance_id}
    _TAKE.run(tx, {"instance": instance_id, "at": tx.now})
    rules = tx.entities(InstanceAccessRule, _ALL, given)
    new = [rule.id for rule in rules if rule.state is None and not rule.is_denied]
    if new:
        _JOIN.run(tx, {"rules": new, "instance": instance_id, "born_at": tx.now})
        _TAKE.run(tx, {"instance": instance_id, "at": tx.now})
    kept = [rule.id for rule in rules if rule.state == "error" and rule.is_denied]
    if kept:
        _DROP_AGAIN.run(tx, {"rules": kept, "instance": instance_id, "at": tx.now})
    return tx.entities(InstanceAccessRule, _ALL, given) if new or kept else rules


def of_instance(tx: Tx, share_id: str, instance_id: str) -> list[InstanceAccessRule]:
    """All rules of a share as they are on an instance of it."""
    return tx.entities(InstanceAccessRule, _ALL, {"of_share": share_id, "instance": instance_id})


_TAKE = STATE.moves("take", _OF_INSTANCE)
_DROP_AGAIN = STATE.moves("drop", _AMONG, _OF_INSTANCE)
_JOIN = moving.added_from(
    t,
    _NAMES,
    sa.select(access_rules.c.id, sa.bindparam("instance", type_=t.c.share_instance_id.type), _BORN_AT).where(
        access_rules.c.id.in_(sa.bindparam("rules", expanding=True))
    ),
    {"state": "allow"},
)
_ALL = (
    sa.select(*columns_of(InstanceAccessRule, access_rules, client=CLIENT, state=t.c.state))
    .select_from(access_rules.outerjoin(t, sa.and_(t.c.access_rule_id == access_rules.c.id, _OF_INSTANCE)))
    .where(access_rules.c.share_id == sa.bindparam("of_share"))
    .order_by(access_rules.c.created_at, access_rules.c.id)
)


def in_force(tx: Tx, instance_ids: Iterable[str]) -> dict[str, list[RuleInForce]]:
    """The rules by instance, in order, of those of these instances on which all are in force."""
    found: dict[str, list[RuleInForce]] = {}
    for rule in tx.entities(RuleInForce, _IN_FORCE, {"instances": list(instance_ids)}):
        rules = found.setdefault(rule.instance_id, [])
        if rule.id is not None:
            rules.append(rule)
    return found


_settled_rules = sa.and_(t.c.share_instance_id == instances.c.id, t.c.state == sa.literal_column("'active'"))
_IN_FORCE = (
    sa.select(
        instances.c.id.label("instance_id"),
        instances.c.cast_rules_to_readonly,
        access_rules.c.id,
        access_rules.c.access_type,
        CLIENT,
        access_rules.c.access_level,
    )
    .select_from(
        instances.outerjoin(t, _settled_rules).outerjoin(access_rules, access_rules.c.id == t.c.access_rule_id)
    )
    .where(
        instances.c.id.in_(sa.bindparam("instances", expanding=True)),
        instances.c.access_rules_status == sa.literal_column("'active'"),
    )
    .order_by(instances.c.id, access_rules.c.created_at, access_rules.c.id)
)


def finish(tx: Tx, instance_id: str, rule_ids: Sequence[str], event: str) -> None:
    """Let `done` or `failed` happen on an instance to the rules that are still being worked on."""
    if rule_ids:
        _FINISH[event].run(tx, {"rules": list(rule_ids), "instance": instance_id, "at": tx.now})


_FINISH = {event: STATE.moves(event, _AMONG, _OF_INSTANCE) for event in ("done", "failed")}


def drop(tx: Tx, share_id: str, instance_id: str, rule_ids: Sequence[str]) -> int:
    """Denied rules are done on an instance; those that no other instance has go for good.

    How many characters of metadata go with them.
    """
    if not rule_ids:
        return 0
    given = {"rules": list(rule_ids)}
    tx.rows(_LOCK_RULES, given)  # of two instances that are the last, one looks after the other
    tx.execute(_DROP, {**given, "instance": instance_id})
    return forget_dropped(tx, share_id)


_LOCK_RULES = (
    sa.select(access_rules.c.id)
    .where(access_rules.c.id.in_(sa.bindparam("rules", expanding=True)))
    .order_by(access_rules.c.id)
    .with_for_update()
)
_DROP = sa.delete(t).where(_AMONG, _OF_INSTANCE, t.c.state == "denying")


def forget_dropped(tx: Tx, share_id: str) -> int:
    """The denied rules of a share that no instance has go for good; how many characters of metadata with them."""
    return sum(metadata.characters(row.metadata) for row in tx.rows(_FORGET, {"of_share": share_id}))


_FORGET = (
    sa.delete(access_rules)
    .where(
        access_rules.c.share_id == sa.bindparam("of_share"),
        access_rules.c.is_denied.is_(True),
        ~sa.exists().where(t.c.access_rule_id == access_rules.c.id),
    )
    .returning(access_rules.c.metadata)
)


def summary(tx: Tx, instance_id: str) -> set[str]:
    """The states that rules have on an instance."""
    return {row.state for row in tx.rows(_SUMMARY, {"instance": instance_id})}


_SUMMARY = sa.select(t.c.state).where(_OF_INSTANCE).distinct()


class Failed(msgspec.Struct, frozen=True, gc=False):
    """A rule in error on an instance that no user looks after: it was denied, or made for attachments.

    `asked_at` is when it was changed last by who wants it so, `failed_at` when the back end failed last. Naive UTC.
    """

    rule_id: str
    share_id: str
    client: str
    is_denied: bool
    asked_at: datetime.datetime
    failed_at: datetime.datetime


def failed_of_share(tx: Tx, share_id: str) -> list[Failed]:
    """Those of a share."""
    return tx.entities(Failed, _FAILED_OF_SHARE, {"of_share": share_id})


def failed(tx: Tx, after: str, most: int) -> list[Failed]:
    """Those of shares after one, in the order of the shares' ids."""
    return tx.entities(Failed, _FAILED, {"after": after, "most": most})


_ALL_FAILED = (
    sa.select(
        access_rules.c.id.label("rule_id"),
        access_rules.c.share_id,
        access_rules.c.client,
        access_rules.c.is_denied,
        sa.func.coalesce(access_rules.c.updated_at, access_rules.c.created_at).label("asked_at"),
        sa.func.coalesce(t.c.updated_at, t.c.created_at).label("failed_at"),
    )
    .join_from(t, access_rules, access_rules.c.id == t.c.access_rule_id)
    # as in the index of those that are not in force: these are few
    .where(t.c.state != sa.literal_column("'active'"), t.c.state == sa.literal_column("'error'"))
    .where(sa.or_(access_rules.c.is_denied, access_rules.c.made_for.is_not(None)))
)
_FAILED_OF_SHARE = _ALL_FAILED.where(access_rules.c.share_id == sa.bindparam("of_share"))
_FAILED = (
    _ALL_FAILED.where(access_rules.c.share_id > sa.bindparam("after"))
    .order_by(access_rules.c.share_id)
    .limit(sa.bindparam("most"))
)
