# SPDX-License-Identifier: Apache-2.0
"""A service says how it is by its last heartbeat and by whether its worker was told to end."""

import datetime

import pytest

from abaca.domain.administration.services import NEVER, Service

DOWN_BEFORE = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - naive UTC, as in the database
SECOND = datetime.timedelta(seconds=1)


@pytest.mark.parametrize(
    ("heartbeat_at", "is_stopped", "state", "takes_work"),
    [
        pytest.param(DOWN_BEFORE, False, "up", True, id="a heartbeat just in time"),
        pytest.param(DOWN_BEFORE - SECOND, False, "down", False, id="a heartbeat too long ago"),
        pytest.param(DOWN_BEFORE, True, "stopped", True, id="stopped a moment ago, and perhaps restarting"),
        pytest.param(DOWN_BEFORE - SECOND, True, "stopped", False, id="stopped for long"),
        pytest.param(NEVER, False, "down", False, id="never served yet"),
    ],
)
def test_a_service_says_how_it_is(heartbeat_at, is_stopped, state, takes_work):
    service = Service(
        id=1,
        binary="manila-share",
        host="h@b",
        availability_zone="nova",
        disabled=False,
        disabled_reason=None,
        ensuring=False,
        stopped=is_stopped,
        heartbeat_at=heartbeat_at,
        problem=None,
    )
    assert (service.state(DOWN_BEFORE), service.takes_work(DOWN_BEFORE)) == (state, takes_work)
