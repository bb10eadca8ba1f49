# SPDX-License-Identifier: Apache-2.0
"""Servers: where they come from, what is done on them, and that attachments stay true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors

if TYPE_CHECKING:
    from abaca.compute.contract import Compute
    from abaca.db.engine.database import Database
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.journal.queues import WorkQueue
    from abaca.nodes.contract import Machines
    from abaca.operations.attachments.attachment_parts import AttachmentParts
    from abaca.settings import Settings


def compute(settings: Settings, db: Database | None) -> Compute:
    """Where servers come from, as `[compute] plugin` says; a Nova needs no database. Raises `ConfigError`."""
    if settings.compute.plugin == "inventory" and db is not None:
        from abaca.compute.inventory import Inventory

        return Inventory(db)
    from abaca.compute import nova

    nova.check_files(settings.compute)
    try:
        return nova.Nova(settings.compute)
    except ImportError:
        raise errors.ConfigError(
            problem="[compute] plugin = nova needs openstacksdk", mend="Install it: pip install 'abaca[nova]'"
        ) from None


def nodes(settings: Settings) -> Machines:
    """The hands on servers, as `[nodes] plugin` says. Raises `ConfigError`."""
    from abaca.nodes.glusterfs import Glusterfs
    from abaca.nodes.nfs import Nfs

    said = settings.nodes
    mounters = [Nfs(port=said.nfs_port, more=said.mount_options), Glusterfs(more=said.mount_options)]
    if said.plugin == "rehearsal":
        from abaca.nodes.rehearsal import Rehearsal

        path = settings.state_path / "nodes" / "rehearsal.sqlite"
        try:
            return Rehearsal(path, mounters, delays=said.rehearsal_delays, failures=said.rehearsal_failures)
        except ValueError as error:
            raise errors.ConfigError(
                problem=f"[nodes] rehearsal_failures: {error}", mend="Name a method and an error"
            ) from None
    from abaca.nodes.mounts import Nodes
    from abaca.nodes.shell import Limits

    limits = Limits(
        connect_s=said.connect_timeout_s, command_s=said.command_timeout_s, install_s=said.install_timeout_s
    )
    return Nodes(mounters, limits=limits, max_connections=said.max_connections)


def serve_nodes(settings: Settings, db: Database) -> WorkQueue[AttachmentParts]:
    """The queue of what is done on servers, with what is needed for it. Raises `ConfigError`."""
    from abaca.journal.queues import WorkQueue
    from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts

    said = settings.nodes
    parts = AttachmentParts(
        compute(settings, db),
        nodes(settings),
        longest_pause_s=said.longest_pause_s,
        nfs_port=said.nfs_port,
        mount_options=said.mount_options,
        here=settings.host,
    )
    return WorkQueue(QUEUE, parts, settings.nodes.max_connections, stop=parts.stop)


def see_to_attachments(settings: Settings, db: Database, on_nodes: WorkQueue[AttachmentParts]) -> list[PeriodicTask]:
    """That attachments stay true."""
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.operations.attachments.attachment_parts import LOOKS
    from abaca.reconcile.access_rules import AccessRules
    from abaca.reconcile.attachments import Attachments
    from abaca.reconcile.clusters import Clusters
    from abaca.reconcile.orphaned_mounts import OrphanedMounts

    parts = on_nodes.parts
    interval_s = settings.nodes.verify_interval_s
    attachments = Attachments(db, parts, verify_interval_s=interval_s)
    often_s = min(15.0, settings.nodes.longest_pause_s)
    return [
        PeriodicTask("attachments", often_s, attachments.heal),
        PeriodicTask("number of attachments", 60, attachments.add_up),
        PeriodicTask("attachments of servers that were off", often_s, attachments.wake),
        PeriodicTask("rules that were not taken away", often_s, AccessRules(db).heal),
        PeriodicTask("mounts that were given up", often_s, OrphanedMounts(db, parts).sweep),
        PeriodicTask("clusters", often_s, Clusters(db, parts, look_interval_s=2 * often_s).heal),
        PeriodicTask("verifying attachments", min(60.0, interval_s), attachments.verify, LOOKS),
    ]
