# SPDX-License-Identifier: Apache-2.0
"""Why share servers of a back end could not have one exact subnet more: a question, of which nothing is kept."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from abaca.journal import questions
from abaca.networks.contract import NetworkUnreachable, told
from abaca.operations.networks.share_network_check import Args, refusals
from abaca.operations.parts import ServerHost

if TYPE_CHECKING:
    from abaca.journal.op import Op

log = logging.getLogger(__name__)


def find_refusals(op: Op[ServerHost]) -> None:
    """By share server its reason; none for those that could. Whoever asks waits, so nothing is tried again."""
    try:
        found = refusals(op)
    except NetworkUnreachable as away:
        log.warning("op=%s kind=%s %s", op.id, op.what.kind, away.message)
        found = dict.fromkeys(op.args.server_ids, told(away.code, away.message))
    questions.answer(op, found)


OPERATION = questions.kind("share-network-look", Args, ServerHost, find_refusals)
