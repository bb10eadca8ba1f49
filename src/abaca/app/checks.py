# SPDX-License-Identifier: Apache-2.0
"""What stops a program before it starts: settings that contradict each other, packages that are not installed."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from abaca import errors
from abaca.settings import networks

if TYPE_CHECKING:
    from abaca.settings import Settings


def check(settings: Settings) -> None:
    """Raises `ConfigError` for settings that are each right and together wrong."""
    if settings.auth_strategy == "none" and not _is_loopback(settings.osapi_share_listen):
        raise errors.ConfigError(
            problem=f"auth_strategy = none would make an administrator of all who reach {settings.osapi_share_listen}",
            mend="Set auth_strategy to keystone or http_basic, or osapi_share_listen to 127.0.0.1",
        )
    if settings.auth_strategy == "keystone" and not settings.keystone_authtoken:
        raise errors.ConfigError(
            problem="auth_strategy = keystone needs the section [keystone_authtoken]",
            mend="Add it with www_authenticate_uri, auth_url and the service's credentials",
        )
    if settings.database.connection is not None:
        from abaca.db.engine import trouble  # brings SQLAlchemy

        trouble.check_url(settings.database.connection)
    if not settings.compute.key_directory.is_absolute():
        raise errors.ConfigError(
            problem=f"[compute] key_directory = {settings.compute.key_directory} is not absolute",
            mend="Write the whole path, from /",
        )
    if not settings.backends_path.is_absolute():
        raise errors.ConfigError(
            problem=f"drivers_path = {settings.drivers_path} is not absolute", mend="Write the whole path, from /"
        )
    _check_log_file(settings.log_file)
    _check_project_ids(settings.project_id_regex)
    _check_messaging(settings)
    _check_mount_roots(settings)
    networks.check(settings.networks, settings.declared_subnets)
    if settings.service_down_time <= settings.report_interval:
        raise errors.ConfigError(
            problem=f"service_down_time = {settings.service_down_time} is not above report_interval",
            mend=f"Set it to at least {3 * settings.report_interval}",
        )


def _check_mount_roots(settings: Settings) -> None:
    from abaca.domain.attachments import mount_points

    try:
        mount_points.read_roots(settings.nodes.mount_roots)
    except errors.Invalid as error:
        raise errors.ConfigError(
            problem="[nodes] mount_roots names a directory that is no root for mounts", mend=error.message
        ) from None


def _check_log_file(file: Path | None) -> None:
    if file is None:
        return
    is_there = file.exists()
    if file.is_dir() or not os.access(file if is_there else file.parent, os.W_OK):
        raise errors.ConfigError(
            problem=f"log_file = {file} cannot be written", mend="Make its directory, writable for this user"
        )


def _check_project_ids(regex: str) -> None:
    try:
        re.compile(regex)
    except re.error as error:
        raise errors.ConfigError(
            problem=f"project_id_regex is no regular expression: {error}", mend=r"Write one such as [0-9a-f\-]+"
        ) from None


def _check_messaging(settings: Settings) -> None:
    messaging = settings.oslo_messaging_notifications
    if not messaging.driver:
        return
    if not messaging.transport_url or not messaging.topics:
        raise errors.ConfigError(
            problem="[oslo_messaging_notifications] needs transport_url and topics",
            mend="Add `transport_url = rabbit://user:password@host:5672/`, or take driver out",
        )
    import importlib.util

    if importlib.util.find_spec("oslo_messaging") is None:
        raise errors.ConfigError(
            problem="[oslo_messaging_notifications] is set, but the Python package oslo.messaging is not installed",
            mend="Install it with `pip install abaca[messaging]`, or take driver out",
        )


def missing(error: ImportError) -> errors.ConfigError:
    """A package that is not installed, as the operator should read it."""
    return errors.ConfigError(
        problem=f"The Python package {error.name} is not installed",
        mend=f"Install it beside Abaca: pip install {error.name}",
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
