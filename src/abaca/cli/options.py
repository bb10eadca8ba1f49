# SPDX-License-Identifier: Apache-2.0
"""What every command takes: where the configuration is, and where the state is."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from abaca import app, settings


class Given(msgspec.Struct, frozen=True):
    """The configuration as the command line names it."""

    files: tuple[str, ...]
    state_path: str | None

    def load(self) -> settings.Loaded:
        """Read it. Raises `ConfigError`."""
        overrides = {"state_path": _absolute(self.state_path)} if self.state_path else {}
        loaded = settings.read(self.files, overrides=overrides)
        app.check(loaded.settings)
        return loaded

    def again(self) -> list[str]:
        """The same, as arguments for a child process."""
        named = [part for file in self.files for part in ("--config-file", _absolute(file))]
        return [*named, *(("--state-path", _absolute(self.state_path)) if self.state_path else ())]


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options, and its function a `Given` as `given`."""

    @click.option(
        "--config-file",
        "config_files",
        multiple=True,
        metavar="PATH",
        help="INI file, or a directory of *.conf; may be repeated, the later wins. "
        f"Without it ABACA_CONFIG, else {app.SYSTEM_CONFIG} if there is one.",
    )
    @click.option("--state-path", metavar="DIR", help="Directory for the database and all state; wins over the files.")
    @functools.wraps(command)
    def with_given(config_files: tuple[str, ...], state_path: str | None, **rest: Any) -> Any:
        files = config_files or _default_files()
        return command(given=Given(files, state_path), **rest)

    return with_given


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _default_files() -> tuple[str, ...]:
    named = os.environ.get("ABACA_CONFIG")
    if named:
        return (named,)
    return (str(app.SYSTEM_CONFIG),) if Path(app.SYSTEM_CONFIG).is_file() else ()
