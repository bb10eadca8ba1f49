# SPDX-License-Identifier: Apache-2.0
"""The Python environment in which the lab runs OpenStack's services: not ours, since they pin a great many packages."""

import pathlib

from lab import processes

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-openstack"
LOCK = ROOT / "requirements" / "openstack.txt"
PYTHON = ENVIRONMENT / "bin" / "python"
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}  # compiling a service takes seconds, which is once enough


def make_environment() -> None:
    """Make the environment if it is not there; takes a minute, raises `LabError`."""
    if not (ENVIRONMENT / ".installed").exists():
        processes.command(["make", "-C", str(ROOT), "openstack"], timeout_s=900.0)
