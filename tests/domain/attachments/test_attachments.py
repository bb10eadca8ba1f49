# SPDX-License-Identifier: Apache-2.0
"""Under which tag a share may be attached, and when what failed is tried again."""

import pytest

from abaca import errors
from abaca.domain.attachments import attachments


@pytest.mark.parametrize("tag", ["", "a b", "a_b", "x" * 256, "ä", "a\n"])
def test_a_tag_that_nova_would_refuse_is_refused(tag):
    with pytest.raises(errors.Invalid):
        attachments.check_tag(tag, "share")


def test_without_a_tag_the_shares_id_is_one():
    assert attachments.check_tag(None, "7f3c") == "7f3c"
    assert attachments.check_tag("my-Tag-1", "7f3c") == "my-Tag-1"


def test_the_delays_between_tries_grow_up_to_an_hour():
    delays = [attachments.retry_delay_s(attempts) for attempts in range(1, 12)]
    assert delays == sorted(delays)
    assert delays[0] == 30
    assert delays[-1] == 3600
