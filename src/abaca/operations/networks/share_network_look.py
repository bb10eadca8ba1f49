# SPDX-License-Identifier: Apache-2.0
"""Why share servers of a back end could not have one exact subnet more: a question, of which nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca.journal import questions
from abaca.operations.networks.share_network_check import Args, refusals
from abaca.operations.parts import ServerHost

if TYPE_CHECKING:
    from abaca.journal.op import Op


def find_refusals(op: Op[ServerHost]) -> None:
    """By share server its reason; none for those that could."""
    questions.answer(op, refusals(op))


OPERATION = questions.kind("share-network-look", Args, ServerHost, find_refusals)
