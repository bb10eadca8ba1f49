# SPDX-License-Identifier: Apache-2.0
"""The one place where text becomes part of a path, a command line or a configuration file."""

from __future__ import annotations

import re
from pathlib import Path

from abaca.drivers import contract

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PATH = re.compile(r"(/[A-Za-z0-9_.+@=:-]+)+")


def safe(text: str, *, most: int = 128) -> str:
    """The text, when it may be a file's name and stand unquoted anywhere. Raises `contract.Refused`."""
    if not _NAME.fullmatch(text) or len(text) > most:
        raise contract.Refused(reason=f"{text[:most]!r} is no name of letters, digits, dots, dashes and underscores")
    return text


def safe_path(path: Path) -> Path:
    """The path, when it is absolute, without detours, and needs no quoting. Raises `contract.Refused`."""
    if not _PATH.fullmatch(str(path)) or {".", ".."} & set(path.parts):
        raise contract.Refused(reason=f"'{path}' is no plain absolute path of letters, digits and _ . + @ = : -")
    return path
