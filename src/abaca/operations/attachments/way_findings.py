# SPDX-License-Identifier: Apache-2.0
"""Each step of the way to a server or of an attachment, tried from the host where this runs; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.journal import keys
from abaca.db.shares import access_rules, shares
from abaca.domain.attachments import attachments as domain
from abaca.domain.attachments import mount_instructions
from abaca.nodes.contract import Finding, NodeError
from abaca.operations.attachments import attachment_attach

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Database
    from abaca.nodes.contract import Seen
    from abaca.operations.attachments.attachment_parts import AttachmentParts


class Examined(msgspec.Struct, frozen=True):
    """What the steps have shown, in their order, and on which host they were tried."""

    host: str
    findings: list[Finding]


# Where one of these fails nobody is in, and nothing behind it can be looked at.
WAY_IN = ("key", "ssh", "host key", "login", "sudo", "shell")


def of_server(parts: AttachmentParts, server_id: str) -> list[Finding]:
    """Whether workers could mount shares on a server. Raises `NotFound`, and what the compute plugin raises."""
    server = parts.servers.show(server_id)
    if server is None:
        raise errors.NotFound(resource="Server", id=server_id)
    found = [_state_of(server)]
    try:
        return found + parts.nodes.probe(parts.login(server.id))
    except errors.AbacaError as error:
        return [*found, Finding("way in", False, error.message)]


def of_attachment(db: Database, parts: AttachmentParts, attachment_id: str) -> list[Finding]:
    """What the database, its server and the machine that mounts for it say of an attachment. Raises `NotFound`."""
    with db.read() as tx:
        row = attachments.show(tx, attachment_id)
    if row is None:
        raise errors.NotFound(resource="Attachment", id=attachment_id)
    return [*_in_database(db, row), *_on_machine(db, parts, row)]


def _in_database(db: Database, row: domain.Attachment) -> list[Finding]:
    """Its state, what is under way, and its access rules."""
    why = f": {row.error_text} {domain.mend(row.error_code)}" if row.error_code else ""
    found = [Finding("attachment", row.state == "active", f"{row.state}, wanted {row.wanted}{why}")]
    with db.read() as tx:
        for work in keys.holders(tx, attachments.key(row.id)):
            waits = work.wait["what"] if work.wait else work.error_text
            found.append(Finding("work", None, f"{work.kind} is {work.state}{f', for {waits}' if waits else ''}"))
        rules = {rule.client: rule for rule in access_rules.of_addresses(tx, row.share_id, row.addresses)}
    for address in row.addresses:
        rule = rules.get(address)
        if rule is None:
            found.append(Finding("rule", False, f"the share has no access rule for {address}"))
            continue
        is_enough = rule.mounted_state == "active" and row.access_level in (rule.access_level, "ro")
        found.append(Finding("rule", is_enough, f"{address} {rule.access_level}, {rule.mounted_state}"))
    return found


def _on_machine(db: Database, parts: AttachmentParts, row: domain.Attachment) -> list[Finding]:
    """What its server and the machine that mounts for it say."""
    with db.read() as tx:
        plan = attachment_attach.plan_of(tx, row, shares.find(tx, row.share_id))
    source = row.source or plan.wanted_source
    if source is None:
        return [Finding("export", False, "the share has no export location")]
    found = [Finding("export", source == plan.wanted_source, source)]
    try:
        server = parts.servers.show(row.server_id)
        if server is None:
            return [*found, Finding("server", False, f"server {row.server_id} is not known any more")]
        found.append(_state_of(parts.mounting(server, row.mode)))
        login, guest = parts.way(row.server_id, row.mode, row.tag)
    except errors.AbacaError as error:
        return [*found, Finding("way in", False, error.message)]
    address = mount_instructions.split(source)[0]
    is_nfs = plan.protocol == "NFS"
    found += parts.nodes.probe(login, plan.protocol, address, parts.nfs_port if is_nfs else 0)
    if _is_shut_out(found):
        return found
    try:
        seen = parts.nodes.look(login, attachment_attach.mount_of(plan, source, guest))
    except NodeError as error:
        return [*found, Finding("mount", False, error.message)]
    where = f"{row.mount_point} on {login.host}"
    if seen is None:
        return [*found, Finding("mount", False, f"nothing of it is mounted at {where}")]
    return [*found, Finding("mount", True, where), *_of_options(seen, parts.mount_options if is_nfs else ())]


def _of_options(seen: Seen, wanted: Sequence[str]) -> list[Finding]:
    """What a mount lacks that was made before its options were asked for; nothing when it has all."""
    lacking = ",".join(one for one in wanted if one not in seen.options)
    if not lacking:
        return []
    mend = f"detach and attach it, or run there: mount -o remount,{lacking} {seen.mount_point}"
    return [Finding("options", None, f"mounted without {lacking}, and so until it is mounted anew: {mend}")]


def _is_shut_out(found: Sequence[Finding]) -> bool:
    return any(step.is_well is False and step.name in WAY_IN for step in found)


def _state_of(server: Server) -> Finding:
    return Finding("server", server.status == "ACTIVE", f"{server.name} ({server.id}) is {server.status}")
