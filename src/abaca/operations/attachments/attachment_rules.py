# SPDX-License-Identifier: Apache-2.0
"""The access rules that attachments need: one for each share and address, shared by all attachments that need it.

Where a share's clients are known by certificates, the one address of a server is its certificate's name.

`settle` is level-triggered: it looks at the attachments there are and makes the rules theirs, in the caller's
transaction, with the back end's part queued. A rule that a user made serves too, and is never changed or taken away;
when the user denies it, a rule of the attachments stands in its place.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools
from abaca.db.attachments import attachments
from abaca.db.journal import operations
from abaca.db.shares import access_rules, instance_access_rules, share_instances, shares
from abaca.domain.attachments import clients
from abaca.domain.attachments.attachments import Attachment
from abaca.domain.shares.access_rules import PENDING, AccessRule, next_try_at
from abaca.drivers import contract
from abaca.journal.interruptions import Wait
from abaca.operations.attachments.attachment_needs import MARK
from abaca.operations.attachments.attachment_parts import RulePending
from abaca.operations.shares import access_rules_sync

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.shares import Share
    from abaca.journal.requester import Requester

log = logging.getLogger(__name__)

# The code of the error of an attachment that is not let in.
REFUSED = contract.Refused.code
# How long an attachment waits for its rules, in seconds.
RULES_WITHIN_S = 240.0
# How often it looks what keeps them meanwhile.
LOOK_AGAIN_S = 15.0


def settle(tx: Tx, share_id: str, addresses: Sequence[str], by: Requester | None) -> None:
    """Make the rules for these addresses those that the share's attachments need now."""
    shares.lock(tx, share_id)
    needed = attachments.needs(tx, share_id, addresses)
    known = _known(tx, share_id, addresses)
    changed = [_settle(tx, share_id, address, needed.get(address), known.get(address)) for address in addresses]
    if any(changed):
        access_rules_sync.start_for_share(tx, share_id, by)


def _known(tx: Tx, share_id: str, addresses: Sequence[str]) -> dict[str, AccessRule]:
    return {rule.client: rule for rule in access_rules.of_addresses(tx, share_id, addresses)}


def _settle(tx: Tx, share_id: str, address: str, level: str | None, rule: AccessRule | None) -> bool:
    """Whether the back end has to be told."""
    if rule is None:
        if level is not None:
            access_rules.add(tx, share_id, _ours(address, level))
        return level is not None
    if rule.made_for != MARK or rule.is_denied:
        return False  # a user's; or it goes, and whoever needs it again waits for that
    if level is None:
        access_rules.deny(tx, rule.id)
        return True
    if rule.access_level == level and rule.mounted_state != "error":
        return False
    access_rules.want_level(tx, rule.id, level)
    return True


def _ours(address: str, level: str) -> dict[str, str]:
    type = clients.access_type(address)
    return {"access_type": type, "access_to": address, "client": address, "access_level": level, "made_for": MARK}


def let_go(tx: Tx, row: Attachment, by: Requester | None) -> None:
    """An attachment, whose share is locked, is gone: what only it needed goes when the back ends are told.

    Others of the share are not looked through here, where each of thousands may come (attachment_needs.py).
    """
    if attachments.has_twin(tx, row):
        return
    known = _known(tx, row.share_id, row.addresses)
    if any(rule.made_for == MARK and not rule.is_denied for rule in known.values()):
        access_rules_sync.start_for_share(tx, row.share_id, by)


def try_again(tx: Tx, share_id: str) -> int:
    """Have the back ends asked once more for what they failed to do and no user looks after; how many rules.

    That are rules which were denied, and those of attachments. It is too early for some.
    """
    shares.lock(tx, share_id)
    failed = instance_access_rules.failed_of_share(tx, share_id)
    due = {rule.rule_id: rule for rule in failed if next_try_at(rule.asked_at, rule.failed_at) <= tx.now}
    needed = attachments.needs(tx, share_id, sorted({rule.client for rule in due.values()}))
    for rule in due.values():
        if rule.is_denied:
            instance_access_rules.move(tx, rule.rule_id, "deny")
        elif rule.client in needed:
            instance_access_rules.move(tx, rule.rule_id, "update")
        else:
            access_rules.deny(tx, rule.rule_id)
    if due:
        access_rules_sync.start_for_share(tx, share_id, None)
    return len(due)


def needing(tx: Tx, rule: AccessRule) -> list[Attachment]:
    """The attachments that need a rule of theirs."""
    return _users(tx, rule.share_id, rule.client)


# ---------------------------------------------------------------- for which addresses


def versions_of(tx: Tx, host: str) -> set[int]:
    """Of which addresses a share's back end lets clients in."""
    pool = pools.show(tx, host, 0)  # whether it is up does not matter here
    said = {} if pool is None else pool.capabilities
    return {version for version in (4, 6) if said.get(f"ipv{version}_support", True)}


def let_in(addresses: Sequence[str], versions: set[int], network: str | None = None) -> list[str]:
    """Those of a server's addresses that such a back end lets in; with a network this, if any of them is in it."""
    found = sorted({address for address in addresses if (6 if ":" in address else 4) in versions})
    if network is None:
        return found
    return [network] if any(is_within(address, network) for address in found) else []


def is_within(address: str, network: str) -> bool:
    """Whether an address is one of a network."""
    return ipaddress.ip_address(address) in ipaddress.ip_network(network)


def follow(tx: Tx, row: Attachment, share: Share | None, addresses: Sequence[str], by: Requester | None) -> Attachment:
    """Rules for the addresses that an attachment's server (or who mounts for it) has now, and for no former ones.

    Where it has none any more the former stay: that is told when its machine is looked at. Gives the attachment as it
    is then. The share is None where it is gone.
    """
    if share is None:
        return row
    now = row.addresses
    if not any(map(clients.is_certificate, now)):  # by which it is known whatever its addresses are
        now = let_in(addresses, versions_of(tx, share.host or ""), row.network) or now
    if now == row.addresses and _are_given(_known(tx, row.share_id, now), row):
        return row  # so it mostly is; nobody waits for the share, and what others need is not looked through
    shares.lock(tx, row.share_id)
    if now != row.addresses:
        log.info("attachment=%s: server %s has other addresses", row.id, row.server_id)
        attachments.update(tx, row.id, {"addresses": now})
    settle(tx, row.share_id, sorted({*now, *row.addresses}), by)
    return msgspec.structs.replace(row, addresses=now)


def _are_given(known: Mapping[str, AccessRule], row: Attachment) -> bool:
    """Whether nothing is to be done about the rules that an attachment needs.

    Who needs more of one has raised it, as this one would, with the share locked; and none is taken away that an
    attachment needs, which this one does since it was written down.
    """
    rules = [known.get(address) for address in row.addresses]
    return all(rule is not None and _is_given(rule, row.access_level) for rule in rules)


def _is_given(rule: AccessRule, level: str) -> bool:
    if rule.made_for != MARK or rule.is_denied:
        return True  # as in `_settle`
    return rule.access_level == level and rule.mounted_state != "error"


# ---------------------------------------------------------------- beside the rules of users


def take_over(tx: Tx, rule: AccessRule) -> int | None:
    """Put a rule of the attachments in the place of a user's that shall go; None where no attachment needs it.

    How many characters of metadata have gone with the user's. The share is locked.
    """
    needed = attachments.needs(tx, rule.share_id, [rule.client]) if rule.access_type in clients.TYPES else {}
    level = needed.get(rule.client)
    if level is None:
        return None
    return access_rules.replace(tx, rule.id, rule.share_id, _ours(rule.client, level))


def in_the_way(tx: Tx, share_id: str, addresses: Sequence[str], level: str) -> list[AccessRule]:
    """The rules of users that give one of these addresses less than `level`."""
    rules = access_rules.of_addresses(tx, share_id, addresses) if level == "rw" else []
    return [rule for rule in rules if rule.made_for != MARK and rule.access_level == "ro"]


def look_again(tx: Tx, share_id: str) -> None:
    """A user's rule has changed: attachments for which it was too little are tried again soon."""
    attachments.retry_refused(tx, share_id, REFUSED)


def refuse_less(tx: Tx, rule: AccessRule, level: str) -> None:
    """Raises `Conflict` when a user's rule shall give less than attachments need of it."""
    if level != "ro" or rule.access_type not in clients.TYPES:
        return
    users = _users(tx, rule.share_id, rule.client, "rw")
    if users:
        raise errors.Conflict(
            f"Access rule {rule.id} cannot become read-only: attachments write by it, {_named(users)}. "
            "Detach those, and attach them with access_level ro."
        )


def refuse_double(tx: Tx, share_id: str, access_type: str, address: str) -> None:
    """Raises `Taken`, saying who holds it, when attachments have made a rule for the same client."""
    rule = _known(tx, share_id, [address]).get(address) if access_type in clients.TYPES else None
    if rule is None or rule.made_for != MARK:
        return
    said = f"Share access {access_type}:{address} ({rule.access_level}) exists already: "
    users = _users(tx, share_id, address)
    if not users:
        raise access_rules.Taken(said + "it was made for an attachment, and is being taken away; repeat it when it is.")
    raise access_rules.Taken(
        f"{said}rule {rule.id} was made for attachments, {_named(users)}, and goes with the last of them. "
        f"GET /abaca/v1/attachments?share_id={share_id} shows them."
    )


def _users(tx: Tx, share_id: str, address: str, level: str | None = None) -> list[Attachment]:
    rows = attachments.of_share(tx, share_id)
    return [row for row in rows if address in row.addresses and level in (None, row.access_level)]


def _named(rows: Sequence[Attachment]) -> str:
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return ", ".join(f"{row.id} (server {row.server_id})" for row in rows[:5]) + more


# ---------------------------------------------------------------- waiting for them


def wait(share_id: str, what: str) -> Wait:
    """To be raised, or queued with, by whoever waits for a share's rules to be settled."""
    pending = RulePending(reason=what)
    conditions = [attachments.rules_condition(share_id)]
    return Wait(what, conditions=conditions, look_again_s=LOOK_AGAIN_S, within_s=RULES_WITHIN_S, error=pending)


def _held_by(tx: Tx, share_id: str) -> str:
    """What is done with the share now, and for how long already: a back end that hangs is seen by that."""
    found = operations.find(tx, kind=access_rules_sync.OPERATION.kind, resource_id=share_id, live=True)
    for one in found[-1:]:
        age_s = (tx.now - one.created_at).total_seconds()
        known = f"; {one.error_text}" if one.error_text else ""
        return f": {one.kind} of {one.queue}, {age_s:.0f} s old, is {one.state} (operation {one.id}){known}"
    return ""


def in_force(tx: Tx, share_id: str, addresses: Sequence[str]) -> set[str]:
    """Those of these addresses for whose rules nobody has to wait.

    The others come into force after this transaction, so who is written down to wait by then hears of it.
    """
    found = _in_force(tx, share_id, addresses)
    if len(found) < len(set(addresses)):
        share_instances.lock_of_share(tx, share_id)
        found = _in_force(tx, share_id, addresses)
    return found


def _in_force(tx: Tx, share_id: str, addresses: Sequence[str]) -> set[str]:
    return {address for address, rule in _known(tx, share_id, addresses).items() if rule.mounted_state == "active"}


def check(tx: Tx, share_id: str, addresses: Sequence[str], level: str) -> bool:
    """Whether the share lets in at least one of these addresses, none below `level`, and nothing is on its way.

    Not so where a rule has gone, or never came, while somebody waits for it: then it is to be made. From which of its
    addresses a server comes is its own matter. Raises `Wait` while it may yet come, `contract.Refused` when it will
    not.
    """
    known = _known(tx, share_id, addresses)
    if not known.keys() >= set(addresses):
        return False
    refused = [address for address in addresses if known[address].mounted_state == "error"]
    for address in addresses:
        rule = known[address]
        if rule.mounted_state in PENDING:
            what = f"the access rule for {address}, which is {rule.mounted_state}{_held_by(tx, share_id)}"
            raise wait(share_id, what)
        if address not in refused and level == "rw" and rule.access_level == "ro":
            if rule.made_for == MARK:
                raise wait(share_id, f"the access rule for {address}, which becomes one to write")
            # the rule may be hidden from whoever reads this
            raise contract.Refused(reason=f"the share does not let the server in with access_level {level}")
    if len(refused) == len(addresses):
        raise contract.Refused(reason="; ".join(f"the back end does not let in {address}" for address in refused))
    return True
