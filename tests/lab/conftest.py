# SPDX-License-Identifier: Apache-2.0
"""What this machine misses is an error for root, who can install it (`make packages`), and a loud skip for others."""

import os
from collections.abc import Generator

import pytest

from lab import processes


def _skip_what_cannot_be_installed() -> Generator[None, object, object]:
    try:
        return (yield)
    except processes.Missing as missing:
        if os.geteuid() == 0:
            raise
        pytest.skip(f"NOT TESTED on this machine, since only root can change it: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _skip_what_cannot_be_installed())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    return (yield from _skip_what_cannot_be_installed())
