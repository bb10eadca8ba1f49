# SPDX-License-Identifier: Apache-2.0
"""Programs, run with an argument list, a time-out and no shell; what they complain of is in the error's reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection

from abaca import errors
from abaca.drivers import contract


def run(
    *argv: str,
    timeout_s: float = 30.0,
    failed: type[errors.BackendError] = contract.Refused,
    keeps: Collection[int] = (),
) -> str:
    """What the program printed; meanwhile it `keeps` these descriptors open.

    Raises `failed` when it fails, `contract.Unreachable` when it takes too long.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=plain(),
            pass_fds=keeps,
        )
    except subprocess.TimeoutExpired as error:
        raise contract.Unreachable(reason=f"{argv[0]} did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise contract.Refused(reason=f"{argv[0]}: {error.strerror}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise failed(reason=f"{argv[0]} ended with {done.returncode}: {said[-500:]}")
    return done.stdout


def plain() -> dict[str, str]:
    """The environment that programs get: no language, no secrets."""
    return {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "LC_ALL": "C"}


def need(program: str, package: str) -> None:
    """Raises `contract.Refused`, naming the Debian package, when the program is not installed."""
    if shutil.which(program) is None:
        raise contract.Refused(reason=f"{program} is not installed: apt-get install {package}")
