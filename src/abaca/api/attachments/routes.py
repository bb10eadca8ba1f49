# SPDX-License-Identifier: Apache-2.0
"""The resources of servers and of shares attached to them, all of Abaca's own. A new one is one line here."""

from __future__ import annotations

from abaca.api.attachments import (
    attachments,
    examining,
    mount_instructions,
    orphaned_mounts,
    registering,
    servers,
)

OWN = (
    attachments.RESOURCE,
    examining.ATTACHMENTS,
    examining.SERVERS,
    mount_instructions.RESOURCE,
    orphaned_mounts.RESOURCE,
    registering.RESOURCE,
    servers.RESOURCE,
)
