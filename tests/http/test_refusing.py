# SPDX-License-Identifier: Apache-2.0
"""Who is refused before the application is asked gets the answer in the form of the door that they knock at."""

import json

import pytest

from abaca import errors
from abaca.api import doors
from abaca.http import pipeline
from tests.api.world import world


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/v2/shares", "serviceUnavailable"),
        ("/abaca/v1/attachments", "error"),
        ("/data-processing/v2/clusters", "error_message"),
        ("/nothing", "serviceUnavailable"),
    ],
)
def test_a_refusal_has_the_form_of_its_door(tmp_path, path, key):
    with world(tmp_path, worker=False) as made:
        parts = pipeline.make_parts(made.settings, made.db, doors.every())
        refusal = pipeline.refusal(parts, path, errors.Unavailable("Too many wait."), "-")
        said = json.loads(refusal.body)
        assert refusal.status == 503
        assert key in said
        assert "Too many wait." in refusal.body.decode()
