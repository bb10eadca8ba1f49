# SPDX-License-Identifier: Apache-2.0
"""Permissions that resources of several areas ask for; all others stand beside the routes that they guard."""

from __future__ import annotations

from abaca.policy import admin

SPECS_INDEX = admin("share_types_extra_spec:index", "List the extra specs of a share type.")
