# SPDX-License-Identifier: Apache-2.0
"""The configurations of docs/operating/examples can be started as they are."""

import pytest

from abaca import app, settings
from abaca.drivers import load
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "docs" / "operating" / "examples").glob("*.conf"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_well_formed(abaca, config, example):
    said = abaca("config", "check", "--config-file", config(), "--config-file", example)
    assert (said.status, said.err) == (0, "")


def test_the_rehearsal_has_two_plain_back_ends_and_one_with_share_servers(config):
    example = ROOT / "docs" / "operating" / "examples" / "rehearsal.conf"
    read = settings.read([config(), example], environ={}).settings
    makes = {}
    for backend in read.backends:
        driver = app.driver(read, backend)
        driver.start()
        try:
            makes[backend.name] = (backend.driver_handles_share_servers, len(driver.pools()))
            # as the types ask that Manila's own tests make
            assert load.capabilities(driver)["storage_protocol"] == "NFS_CIFS"
        finally:
            driver.stop()
    assert makes == {"quick": (False, 2), "roomy": (False, 2), "served": (True, 1)}
