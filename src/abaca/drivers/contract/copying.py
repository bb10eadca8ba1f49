# SPDX-License-Identifier: Apache-2.0
"""Letting a host copy a share's content: for moves between back ends that cannot make them by themselves.

The host mounts the source and the destination, copies, and compares what it has copied (`drivers/copying.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Literal

from abaca.drivers.contract.access_rules import AccessLevel
from abaca.drivers.contract.shares import ShareInstance
from abaca.drivers.contract.values import Value


class CopyMount(Value, frozen=True, kw_only=True):
    """How a host reaches a share's content: the words of `mount -t <type> -o <options> <source>`.

    A `directory` needs no mount: it is a path on the host of the back end's worker, and on no other.
    """

    type: Literal["directory", "nfs", "cifs", "cephfs", "glusterfs"]
    source: str
    options: Sequence[str] = ()


class AllowsCopying(abc.ABC):
    """A host may be let in to copy a share's content, beside its users."""

    @abc.abstractmethod
    def open_for_copy(self, instance: ShareInstance, addresses: Sequence[str], level: AccessLevel) -> CopyMount:
        """Let the host that has these addresses in; who else may reach the share stays as it is.

        Repeated, it answers the same, by the last `level`. Raises `Gone`, `Busy`, `Unreachable`.
        """

    @abc.abstractmethod
    def close_after_copy(self, instance: ShareInstance) -> None:
        """Nobody is let in but by the share's rules; the host has unmounted before. Absent is success."""
