# SPDX-License-Identifier: Apache-2.0
"""Whom the access rules of an attachment let in: addresses of its server, or the certificate by which that is known.

The list of an attachment holds either; one name cannot be taken for an address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from abaca.domain.shares.access_rules import AccessType

# Protocols whose servers know their clients by certificates.
CERTIFIED = frozenset({"GLUSTERFS"})
TYPES: tuple[AccessType, ...] = ("ip", "cert")
"""The types of rules that attachments need."""
_PREFIX = "abaca-server-"
_SERVER_ID = re.compile(r"[A-Za-z0-9-]{1,51}")


def certificate_name(server_id: str) -> str | None:
    """The common name of a server's certificate; None for an id that no certificate can be called by."""
    return f"{_PREFIX}{server_id}" if _SERVER_ID.fullmatch(server_id) else None


def is_certificate(client: str) -> bool:
    """Whether a client is the certificate of a server, and no address."""
    return client.startswith(_PREFIX)


def access_type(client: str) -> AccessType:
    """The type of the rule that lets it in."""
    return "cert" if is_certificate(client) else "ip"


def addresses(clients: Sequence[str]) -> list[str]:
    """Those that are addresses, or networks."""
    return [client for client in clients if not is_certificate(client)]
