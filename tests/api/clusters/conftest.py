# SPDX-License-Identifier: Apache-2.0
"""One service for each module of tests of clusters."""

import pytest

from tests.api.clusters import asking


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with asking.service(tmp_path_factory.mktemp("clusters")) as made:
        yield made
