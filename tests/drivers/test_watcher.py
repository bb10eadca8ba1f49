# SPDX-License-Identifier: Apache-2.0
"""Who watches an NFS server goes on whatever it meets: nobody else would start the server again."""

import errno
import os

import pytest

from abaca.drivers import contract
from abaca.drivers.exports.ganesha import Watcher
from tests.conftest import wait_until


@pytest.mark.parametrize(
    "problem", [OSError(errno.EMFILE, os.strerror(errno.EMFILE)), contract.Unreachable(reason="it does not start")]
)
def test_it_tries_again_after_any_failure(problem):
    tries = []

    def revive():
        tries.append(problem)
        if len(tries) == 1:
            raise problem

    def look():
        raise RuntimeError("can't start new thread")

    watcher = Watcher(list, revive, look, lambda: 0.1)
    watcher.start()
    wait_until(lambda: len(tries) > 1)
    watcher.stop()
