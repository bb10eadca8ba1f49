# SPDX-License-Identifier: Apache-2.0
"""Who asked for an operation."""

from __future__ import annotations

from typing import Protocol


class Requester(Protocol):
    """Who asked: an API caller, or an operator."""

    @property
    def project_id(self) -> str | None: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def request_id(self) -> str | None: ...
