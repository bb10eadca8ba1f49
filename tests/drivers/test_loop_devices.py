# SPDX-License-Identifier: Apache-2.0
"""An image is behind one loop device, whoever dies while it is made, and behind none when it is let go."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from abaca.drivers.clients import devices
from tests.conftest import wait_until

pytestmark = pytest.mark.system

# In the place of losetup: says that it begins, and makes the device when it is told to.
SLOW = """#!/bin/sh
case " $* " in *" --find "*)
    echo $$ > {place}/begins.new && mv {place}/begins.new {place}/begins
    read go < {place}/go
esac
exec {losetup} "$@"
"""
ATTACH = (
    "import pathlib, sys; from abaca.drivers.clients import devices; devices.attach_loop(pathlib.Path(sys.argv[1]))"
)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(16 << 20)
    yield path
    devices.detach_loop(path)
    assert devices.loops_of(path) == []


@pytest.fixture
def slow(tmp_path):
    """A directory with a losetup that waits for its pipe `go`."""
    os.mkfifo(tmp_path / "go")
    program = tmp_path / "losetup"
    program.write_text(SLOW.format(place=tmp_path, losetup=shutil.which("losetup")))
    program.chmod(0o755)
    return tmp_path


def is_waiting(thread):
    """For a lock of the kernel's, or done."""
    waits = any("->" in line and f" {os.getpid()} " in line for line in Path("/proc/locks").read_text().splitlines())
    return waits or not thread.is_alive()


def test_a_device_that_a_killed_worker_was_making_is_the_only_one(image, slow):
    path = {**os.environ, "PATH": f"{slow}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", ATTACH, str(image)], env=path) as worker:
        wait_until((slow / "begins").exists)
        worker.send_signal(signal.SIGKILL)
    follower = threading.Thread(target=devices.attach_loop, args=[image])
    follower.start()
    wait_until(lambda: is_waiting(follower))
    (slow / "go").write_text("go\n")
    follower.join()
    wait_until(lambda: not Path("/proc", (slow / "begins").read_text().strip()).exists())
    assert len(devices.loops_of(image)) == 1


def test_all_devices_of_an_image_are_let_go(image):
    for _ in range(2):
        subprocess.run(["losetup", "--find", str(image)], check=True)
    assert len(devices.loops_of(image)) == 2
    devices.detach_loop(image)
    assert devices.loops_of(image) == []
