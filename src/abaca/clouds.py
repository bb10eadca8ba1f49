# SPDX-License-Identifier: Apache-2.0
"""An OpenStack cloud as a clouds.yaml has it, asked through openstacksdk. Nothing that its files hold is logged."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from abaca import errors

if TYPE_CHECKING:
    from openstack.connection import Connection


class Cloud:
    """One of these for a process. The cloud is asked nothing before the first call."""

    def __init__(self, file: Path, name: str, timeout_s: float, away: Callable[[str], errors.Unavailable]) -> None:
        """`away` makes the error for a cloud that cannot be asked. Raises ImportError without openstacksdk."""
        import openstack  # noqa: F401 (said now rather than at the first request)

        self._file = file
        self._name = name
        self._timeout_s = timeout_s
        self._away = away
        self._connecting = threading.Lock()
        self._connection: Connection | None = None

    @contextlib.contextmanager
    def asking(self) -> Iterator[Connection]:
        """The library's connection. Raises what `away` makes for what goes wrong on the way."""
        import requests
        from keystoneauth1 import exceptions as of_session
        from openstack import exceptions

        try:
            with self._connecting:
                if self._connection is None:
                    self._connection = self._connect()
            yield self._connection
        except (exceptions.SDKException, of_session.ClientException, requests.RequestException) as error:
            # what it has found out so far may be wrong when the cloud comes back
            self._connection = None
            raise self._away(reason(error)) from None

    def close(self) -> None:
        """Give the connections back."""
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> Connection:
        import openstack
        from openstack.config import OpenStackConfig

        config = OpenStackConfig(config_files=[str(self._file)], load_envvars=False, app_name="abaca")
        region = config.get_one(cloud=self._name, api_timeout=self._timeout_s)
        return openstack.connection.Connection(config=region)


def check_readable(section: str, option: str, file: Path) -> None:
    """Raises ConfigError for a file that this user cannot read."""
    if not os.access(file, os.R_OK):
        raise errors.ConfigError(
            problem=f"[{section}] {option} = {file} cannot be read", mend="Make it, readable for this user"
        )


def check(section: str, service: str, file: Path, name: str) -> None:
    """Raises ConfigError for a clouds.yaml that cannot be read, or does not know the cloud of the service."""
    import yaml

    check_readable(section, f"{service}_clouds_file", file)
    try:
        known = set(yaml.safe_load(file.read_bytes())["clouds"])
    except (yaml.YAMLError, TypeError, KeyError, UnicodeDecodeError):  # what they say may quote a password
        raise errors.ConfigError(
            problem=f"[{section}] {service}_clouds_file = {file} is no clouds.yaml",
            mend="Write it as openstacksdk's documentation says",
        ) from None
    if name not in known:
        raise errors.ConfigError(
            problem=f"{file} has no cloud {name}",
            mend=f"Set {service}_cloud in [{section}] to one of: {', '.join(sorted(known)) or 'none is there'}",
        )


def reason(error: Exception) -> str:
    """What the cloud says, rather than what the library was about to do; else what went wrong on the way."""
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    said = getattr(error, "details", None) or str(error)
    return " ".join(f"{status}, {said}".split() if status else said.split())[:300]


def auth_url(file: Path, name: str) -> str:
    """Where a cloud of a clouds.yaml takes its password, as that file says it; empty where it does not."""
    import yaml

    try:
        return str(yaml.safe_load(file.read_bytes())["clouds"][name]["auth"]["auth_url"])
    except (OSError, yaml.YAMLError, TypeError, KeyError, UnicodeDecodeError):
        return ""  # that is said elsewhere
