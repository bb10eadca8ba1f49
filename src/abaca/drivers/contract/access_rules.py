# SPDX-License-Identifier: Apache-2.0
"""Who may reach a share."""

from __future__ import annotations

from typing import Literal

from abaca.drivers.contract.values import Value

AccessType = Literal["ip", "user", "cert", "cephx"]

AccessLevel = Literal["rw", "ro"]


class AccessRule(Value, frozen=True, kw_only=True):
    """Who may reach an instance: `to` is an address or network, a user, a certificate's common name, a cephx id."""

    id: str
    type: AccessType
    to: str
    level: AccessLevel = "rw"


class AccessOutcome(Value, frozen=True, kw_only=True):
    """What became of one rule: `state` active or error with the `reason`; `key` where the back end hands out one."""

    state: Literal["active", "error"] = "active"
    key: str | None = None
    reason: str | None = None
