# SPDX-License-Identifier: Apache-2.0
"""Every message that can be sent has words."""

import pytest

from abaca.domain.administration import messages
from abaca.domain.administration.messages import Action, Detail


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("detail", Detail)
def test_every_action_and_detail_has_a_sentence(action, detail):
    doing, _, happened = messages.text(action, detail).partition(": ")
    assert doing not in ("", "unknown action")
    assert happened.endswith(".")
    assert (happened == messages.text("002", "001").partition(": ")[2]) == (detail == Detail.UNKNOWN_ERROR)


def test_the_reason_follows_the_sentence():
    assert messages.text("008", "015", "No room.").endswith("; its size is unchanged. No room.")


def test_a_message_of_a_later_release_is_readable():
    assert messages.text("999", "999") == f"unknown action: {messages.text('002', '001').partition(': ')[2]}"
