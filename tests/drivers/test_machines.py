# SPDX-License-Identifier: Apache-2.0
"""Commands on a product's machines, where the worker ends."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from abaca.drivers import contract
from abaca.drivers.clients.machines import Machines
from abaca.nodes.shell import Limits
from tests.conftest import PATIENCE_S


def test_whoever_waits_for_a_machine_is_let_go_with_its_connection():
    is_asked, may_answer = threading.Event(), threading.Event()

    def login(host):
        is_asked.set()
        assert may_answer.wait(2 * PATIENCE_S)
        raise contract.Refused(reason=f"{host} is not known")

    machines = Machines(login, Limits())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(machines.run, "n1", ["true"])
        try:
            assert is_asked.wait(PATIENCE_S)
            machines.close()
            with pytest.raises(contract.Unreachable, match="let go"):
                waiting.result(PATIENCE_S)
        finally:
            may_answer.set()
