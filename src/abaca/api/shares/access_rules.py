# SPDX-License-Identifier: Apache-2.0
"""Access rules: who may reach a share. Changes are written at once and reach the back end in one call."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from abaca import errors
from abaca.api.administration import rule_locks
from abaca.api.shares.lookups import share_for_change, share_for_look, share_held_for_change
from abaca.api.shares.share_actions import refused_as
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import access_rules, shares
from abaca.domain import metadata
from abaca.domain.administration import resource_locks as locks
from abaca.domain.shares import access_rules as rules
from abaca.domain.shares.access_rules import AccessRule
from abaca.domain.shares.shares import TRANSITIONAL, Share
from abaca.http.bodies import UNSET, Body, Filters, Flag, Pairs, Text, UnsetType
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Feature, Many, One, Plain, Since, View, Was
from abaca.operations.administration import resource_locks as locking
from abaca.operations.attachments import attachment_detach, attachment_rules
from abaca.operations.shares import access_rules_sync, metadata_limits
from abaca.policy import admin, member, reader

RULES_DESPITE_ERRORS = Feature(
    "rules_despite_errors", "2.28", "A rule may be added while another is in error; before, that one had to go first."
)
RULES_FOR_BROKEN_INSTANCES = Feature(
    "rules_for_broken_instances", "2.74", "A rule may be added while an instance of the share is in error."
)
SEE_KEY = reader("share_access_rule:get_access_key", "See the key that an access rule was given, as of CephX.")
RESOURCE = Resource("access rules", "/share-access-rules", rules=(SEE_KEY,), since="2.45")

SHOW = reader("share_access_rule:get", "See an access rule.")
LIST = reader("share_access_rule:index", "List a share's access rules.")
UPDATE = member("share_access_rule:update", "Change the level of an access rule.")
LIST_OLD = reader("share:access_get_all", "List a share's access rules, as old clients do.")
ALLOW = member("share:allow_access", "Let somebody reach a share.")
DENY = member("share:deny_access", "Take an access rule away.")
DENY_OF_ATTACHMENTS = admin(
    "share:deny_access_of_attachments", "Take away an access rule that was made for attachments, and those by force."
)
SET_METADATA = member("share_access_metadata:update", "Set the metadata of an access rule.")
DELETE_METADATA = member("share_access_metadata:delete", "Remove metadata of an access rule.")
ACTIONS = Resource("access rule actions", "/shares", rules=(DENY_OF_ATTACHMENTS,))

_BEFORE_OWN_STATES = {"active": "active", "error": "error"}


def _old_state(_call: Call, state: str) -> str:
    """Before rules had states of their own they showed the share's word, and `new` while that was not settled."""
    return _BEFORE_OWN_STATES.get(state, "new")


def _key(call: Call, rule_id: str, value: str | None) -> str | None:
    shown = rule_locks.seen(call, rule_id, value)
    return shown if shown is None or call.allows(SEE_KEY) else locks.MASK


class AccessRuleListed(View):
    """An access rule in the list of its share."""

    id: str
    access_level: str
    access_to: Annotated[str, Computed(rule_locks.seen, needs=("id", "access_to"))]
    access_type: str
    state: Annotated[str, Was("2.27", Computed(_old_state, needs=("state",)))]
    access_key: Annotated[str | None, Since("2.21"), Computed(_key, needs=("id", "access_key"))]
    created_at: Annotated[datetime.datetime, Since("2.33")]
    updated_at: Annotated[datetime.datetime | None, Since("2.33")]
    metadata: Annotated[dict[str, str], Since("2.45")]


class AccessRuleView(AccessRuleListed):
    """An access rule by itself."""

    share_id: str


class Allow(Body):
    """Whom to let in, and what they may do."""

    access_type: Text
    access_to: Text
    access_level: Text | None = None
    metadata: Annotated[Any, Since("2.45")] = None
    lock_visibility: Annotated[Flag, Since("2.82")] = False
    lock_deletion: Annotated[Flag, Since("2.82")] = False
    lock_reason: Annotated[Text | None, Since("2.82")] = None


class Deny(Body):
    """Which rule to take away."""

    access_id: Text
    unrestrict: Annotated[Flag, Since("2.82")] = False


class UpdateRule(Body, key="update_access"):
    """What may change about a rule."""

    access_level: Text | UnsetType = UNSET


class SetMetadata(Body):
    """All pairs under `metadata`."""

    metadata: dict[str, Any]


class RuleFilters(Filters):
    """What the list may be asked for; `share_id` is required."""

    share_id: Text
    metadata: Pairs
    access_type: Text
    access_to: Text
    access_key: Text
    access_level: Text


@ACTIONS.action(
    "allow_access", formerly=("os-allow_access", "2.6"), body=Allow, policy=ALLOW, view=One("access", AccessRuleView)
)
def allow(call: Call, id: str, body: Allow) -> Row | None:
    """Let somebody reach the share; the rule's state tells when the back end does."""
    pairs = metadata.check(body.metadata) if body.metadata is not None else {}
    values = {
        "access_type": body.access_type,
        "access_to": body.access_to,
        "client": rules.client_of(body.access_type, body.access_to),
        "access_level": rules.check_level(body.access_level),
        "metadata": pairs,
    }
    if body.lock_reason and not (body.lock_visibility or body.lock_deletion):
        raise errors.Invalid("A lock_reason needs lock_visibility or lock_deletion.")
    reason = locks.check_reason(body.lock_reason)
    with call.db.write() as tx:
        project_id = _open_for_rules(call, tx, id).project_id
        more = metadata_limits.check(call.settings, {}, pairs)
        rule_id = _add(tx, id, values)
        with refused_as(errors.Invalid):
            if body.lock_deletion:
                locking.lock_rule(tx, id, rule_id, locks.DELETE, reason, call.caller)
            if body.lock_visibility:
                locking.lock_rule(tx, id, rule_id, locks.SHOW, reason, call.caller)
        access_rules_sync.start_for_share(tx, id, call.caller)
        metadata_limits.count(tx, call.settings, project_id, more)
        return access_rules.show(tx, rule_id, call.columns)


@ACTIONS.action("deny_access", formerly=("os-deny_access", "2.6"), body=Deny, policy=DENY, status=202)
def deny(call: Call, id: str, body: Deny) -> None:
    """Take a rule away, whatever became of it; to do so twice is fine. Attachments that live by it get their own."""
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        rule = access_rules.find(tx, body.access_id)
        if rule is None or rule.share_id != id:
            raise errors.NotFound(resource="Share access rule", id=body.access_id)
        if rule.state in ("queued_to_deny", "denying"):
            return
        if rule.made_for is not None and _deny_of_attachments(call, tx, rule):
            return
        rule_locks.refuse_denial(call, tx, rule.id, unrestrict=body.unrestrict)
        _check_settled(share)
        gone = attachment_rules.take_over(tx, rule)
        if gone is None:
            access_rules.deny(tx, rule.id)
        attachment_rules.look_again(tx, id)
        access_rules_sync.start_for_share(tx, id, call.caller)
        metadata_limits.count_anyway(tx, {share.project_id: -(gone or 0)})


@ACTIONS.action(
    "access_list",
    formerly=("os-access_list", "2.6"),
    until="2.44",
    policy=LIST_OLD,
    view=Many("access_list", AccessRuleListed),
)
def index_old(call: Call, id: str) -> Sequence[Row]:
    """A share's rules, as an action."""
    with call.db.read() as tx:
        if not _are_seen(call, tx, id):
            return []
        rule_locks.hide_some(call, tx, id)
        return access_rules.of_share(tx, id, call.columns)


@RESOURCE.get(policy=LIST, view=Many("access_list", AccessRuleListed), filters=RuleFilters)
def index(call: Call, filters: dict[str, Any]) -> Sequence[Row]:
    """A share's rules."""
    share_id = filters.pop("share_id", None)
    if not share_id:
        raise errors.Invalid("The query must name the share: share_id=<id>.")
    pairs = filters.pop("metadata", None)
    _check_filters(call, filters)
    with call.db.read() as tx:
        try:
            if not _are_seen(call, tx, share_id):
                return []
        except errors.NotFound as missing:
            raise errors.Invalid(missing.message) from None
        hidden = rule_locks.hide_some(call, tx, share_id)
        rows = access_rules.of_share(tx, share_id, call.columns, equal=filters, pairs=pairs)
    if hidden and not filters.keys().isdisjoint(("client", "access_key")):
        # else whoever guesses right would know
        return [row for row in rows if row.id not in hidden]
    return rows


@RESOURCE.get("/{id}", policy=SHOW, view=One("access", AccessRuleView))
def show(call: Call, id: str) -> Row:
    """One rule."""
    with call.db.read() as tx:
        row = _rule_for_look(call, tx, id, call.columns)
        rule_locks.hide_one(call, tx, id)
        return row


@RESOURCE.put("/{id}", since="2.88", policy=UPDATE, body=UpdateRule, view=One("access", AccessRuleView))
def update(call: Call, id: str, body: UpdateRule) -> Row | None:
    """Change what the rule allows, without a moment in which it allows nothing."""
    if body.access_level is UNSET:
        raise errors.Invalid("'access_level' is required.")
    level = rules.check_level(str(body.access_level))
    with call.db.write() as tx:
        shares.lock(tx, _rule(call, tx, id).share_id)
        rule = _rule(call, tx, id)
        _check_is_users(rule)
        _open_for_rules(call, tx, rule.share_id)
        if rule.access_level != level:
            attachment_rules.refuse_less(tx, rule, level)
            with refused_as(errors.Invalid):
                access_rules.change_level(tx, id, level)
            attachment_rules.look_again(tx, rule.share_id)
            access_rules_sync.start_for_share(tx, rule.share_id, call.caller)
        rule_locks.hide_one(call, tx, id)
        return access_rules.show(tx, id, call.columns)


@RESOURCE.put("/{id}/metadata", policy=SET_METADATA, body=SetMetadata, view=Plain("metadata", dict[str, str]))
def set_metadata(call: Call, id: str, body: SetMetadata) -> dict[str, str]:
    """Add and overwrite pairs; the whole is answered."""
    pairs = metadata.check(body.metadata)
    with call.db.write() as tx:
        share_for_change(call, tx, _rule(call, tx, id).share_id)
        return _write_metadata(call, tx, id, lambda old: {**old, **pairs})


@RESOURCE.delete("/{id}/metadata/{key}", policy=DELETE_METADATA)
def delete_metadata(call: Call, id: str, key: str) -> None:
    """Remove one pair."""

    def without(old: dict[str, str]) -> dict[str, str]:
        if key not in old:
            raise errors.NotFound(f"Access rule {id} has no metadata key {key!r}.")
        return {name: value for name, value in old.items() if name != key}

    with call.db.write() as tx:
        _write_metadata(call, tx, id, without)


def _write_metadata(
    call: Call, tx: Tx, rule_id: str, change: Callable[[dict[str, str]], dict[str, str]]
) -> dict[str, str]:
    """Change a rule's pairs, within the limits; what they have become."""
    old = access_rules.metadata_for_update(tx, rule_id)
    project_id = share_for_look(call, tx, _rule(call, tx, rule_id).share_id, ()).project_id
    new = change(old)
    more = metadata_limits.check(call.settings, old, new)
    access_rules.update(tx, rule_id, {"metadata": new})
    metadata_limits.count(tx, call.settings, project_id, more)
    return new


# ---------------------------------------------------------------- looking up and checking


def _are_seen(call: Call, tx: Tx, share_id: str) -> bool:
    """Whether the caller may see the rules of a share. Raises NotFound where they may not see the share."""
    # others see of a public share that it is there, but not who may reach it, nor with which key
    project_id = share_for_look(call, tx, share_id, ()).project_id
    return project_id == call.caller.project_id or call.allows(call.route.policy, project_id=project_id)


def _rule_for_look(call: Call, tx: Tx, rule_id: str, columns: tuple[str, ...]) -> Row:
    row = access_rules.show(tx, rule_id, columns if "share_id" in columns else (*columns, "share_id"))
    if row is None:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    _check_visible(call, tx, rule_id, row.share_id)
    return row


def _rule(call: Call, tx: Tx, rule_id: str) -> AccessRule:
    rule = access_rules.find(tx, rule_id)
    if rule is None:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    _check_visible(call, tx, rule_id, rule.share_id)
    return rule


def _check_visible(call: Call, tx: Tx, rule_id: str, share_id: str) -> None:
    share = shares.show(tx, share_id, ("project_id",))
    if share is None:
        raise errors.NotFound(resource="Share access rule", id=rule_id)
    call.visible(share.project_id, "Share access rule", rule_id)


def _open_for_rules(call: Call, tx: Tx, share_id: str) -> Share:
    share = share_held_for_change(call, tx, share_id)
    if share.is_soft_deleted:
        raise errors.Forbidden(
            f"Share {share_id} is in the recycle bin; restore it before you change who may reach it."
        )
    _check_settled(share)
    is_broken = "error" in share.instance_statuses.split()
    if share.host is None or (is_broken and not call.has(RULES_FOR_BROKEN_INSTANCES)):
        raise errors.Invalid(f"Share {share_id} is in error; its access rules cannot change.")
    if share.access_rules_status == "error" and not call.has(RULES_DESPITE_ERRORS):
        raise errors.Invalid(f"Share {share_id} has an access rule in error; deny that one first.")
    return share


def _add(tx: Tx, share_id: str, values: dict[str, Any]) -> str:
    try:
        return access_rules.add(tx, share_id, values)
    except access_rules.Taken:
        attachment_rules.refuse_double(tx, share_id, values["access_type"], values["client"])
        raise


def _check_filters(call: Call, filters: dict[str, str]) -> None:
    """Raises Invalid for what no rule can have; `access_to` becomes the client that it names.

    Raises Forbidden for the key, from those who do not see it.
    """
    if "access_key" in filters:
        call.require(SEE_KEY)
    if "access_level" in filters:
        rules.check_level(filters["access_level"])
    if "access_type" in filters and filters["access_type"] not in rules.TYPES:
        raise errors.Invalid(f"'access_type' must be one of: {', '.join(rules.TYPES)}.")
    if "access_to" in filters:
        if "access_type" not in filters:
            raise errors.Invalid("'access_to' needs 'access_type' beside it.")
        filters["client"] = rules.client_of(filters["access_type"], filters.pop("access_to"))


def _check_is_users(rule: AccessRule) -> None:
    if rule.made_for is not None:
        raise errors.Forbidden(
            f"Access rule {rule.id} belongs to attachments of the share and goes with the last of them: detach those."
        )


def _deny_of_attachments(call: Call, tx: Tx, rule: AccessRule) -> bool:
    """Whether attachments take a rule of theirs away as they are forced to go; without any it is denied as others are.

    Raises `Forbidden` for those who may not.
    """
    needing = attachment_rules.needing(tx, rule)
    if not call.allows(DENY_OF_ATTACHMENTS):
        if needing:
            _check_is_users(rule)
        raise errors.Forbidden(
            f"Access rule {rule.id} was made for attachments that are gone, and is being taken away: the back end is "
            "asked again and again. An administrator can have it asked now."
        )
    for attachment in needing:
        attachment_detach.start(tx, attachment, call.caller, force=True)
    return bool(needing)


def _check_settled(share: Share) -> None:
    changing = [status for status in share.instance_statuses.split() if status in TRANSITIONAL]
    if changing:
        raise errors.Invalid(f"Share {share.id} is {changing[0]}; its access rules can change when that is over.")
