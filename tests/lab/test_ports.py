# SPDX-License-Identifier: Apache-2.0
"""Free ports: no two processes that test get the same one, and none at which anybody listens."""

import socket
import subprocess
import sys

import pytest

from lab import processes
from tests.conftest import ROOT

FEW = range(19000, 19012)
DRAW = f"from lab import processes; print(processes.free_port(among={FEW!r}), flush=True); input()"


def test_each_process_gets_one_of_its_own_until_there_is_none():
    drawing = [
        subprocess.Popen(
            [sys.executable, "-c", DRAW], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    drawn = [int(one.stdout.readline()) for one in drawing]
    drawn += [processes.free_port(among=FEW) for _ in FEW[3:]]
    assert sorted(drawn) == list(FEW)
    with pytest.raises(processes.LabError, match="no free port"):
        processes.free_port(among=FEW)
    for one in drawing:
        one.communicate("\n")
    assert processes.free_port(among=FEW) in drawn[:3]


@pytest.mark.parametrize("address", ["::1", "127.0.0.2"])
def test_a_port_that_is_taken_at_another_address_is_not_free(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listening:
        listening.bind((address, 19020))
        listening.listen()
        with pytest.raises(processes.LabError, match="no free port"):
            processes.free_port(among=[19020])
