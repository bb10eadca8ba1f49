# SPDX-License-Identifier: Apache-2.0
"""What every command takes: where the configuration is, and where the state is."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from abaca import app, errors, settings

if TYPE_CHECKING:
    from abaca.cli.client import Client


class Given(msgspec.Struct, frozen=True):
    """The configuration as the command line names it."""

    files: tuple[str, ...]
    state_path: str | None

    def load(self) -> settings.Loaded:
        """Read the configuration. Raises `ConfigError`."""
        overrides = {"state_path": _absolute(self.state_path)} if self.state_path else {}
        loaded = settings.read(self.files, overrides=overrides)
        app.check(loaded.settings)
        return loaded

    def again(self) -> list[str]:
        """The same, as arguments for a child process."""
        named = [part for file in self.files for part in ("--config-file", _absolute(file))]
        return [*named, *(("--state-path", _absolute(self.state_path)) if self.state_path else ())]


class Api(msgspec.Struct, frozen=True):
    """Which API a command asks: that at `url`, that of a cloud, or without both the one of this host's database."""

    given: Given
    url: str | None = None
    user: str | None = None
    os_cloud: str | None = None
    all_projects: bool = False

    @property
    def is_here(self) -> bool:
        """Whether the database is opened here."""
        return self.url is None and self.os_cloud is None

    @contextmanager
    def open(self) -> Iterator[Client]:
        """The client of it. Raises `ConfigError`, `Unavailable` and `Invalid`."""
        if self.url is not None and self.os_cloud is not None:
            raise errors.Invalid("Say --url or --os-cloud, and not both.")
        if self.url is not None:
            from abaca.cli import remote

            yield remote.at(self.url, self.user, sees_all=self.all_projects)
        elif self.os_cloud is not None:
            from abaca.cli import remote

            yield remote.of_cloud(self.os_cloud, sees_all=self.all_projects)
        else:
            from abaca.cli.client import Client, InProcess

            wsgi, db = app.local_api(self.given.load().settings)
            with closing(db):
                yield Client(InProcess(wsgi), sees_all=True)


def asking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `configured` and those that name a service, and its function an `Api` as `api`."""

    @configured
    @click.option(
        "--url", envvar="ABACA_URL", help="Ask the service there, such as https://share.example:8786, not here."
    )
    @click.option(
        "--user", envvar="ABACA_USER", help="Their name there. The password comes from ABACA_PASSWORD, or is asked for."
    )
    @click.option("--os-cloud", metavar="NAME", help="Ask the service of a cloud in clouds.yaml, not here.")
    @click.option("--all-projects", is_flag=True, help="There, lists are of all projects; here they always are.")
    @functools.wraps(command)
    def with_api(
        given: Given, url: str | None, user: str | None, os_cloud: str | None, *, all_projects: bool, **rest: Any
    ) -> Any:
        return command(api=Api(given, url, user, os_cloud, all_projects), **rest)

    return with_api


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
