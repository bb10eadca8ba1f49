# SPDX-License-Identifier: Apache-2.0
"""`abaca config`: what is in force, where it came from, and whether it can work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from abaca import app, errors, logs, settings
from abaca.cli import exits, ports, shown
from abaca.cli.options import Given, configured
from abaca.cli.state_directory import StateDirectory
from abaca.settings import reading, tree
from abaca.settings.options import Section

# Options of Keystone's plugins that are secret without being called so.
_KEYSTONE_SECRETS = frozenset(("access_key", "access_token", "code", "idp_otp_key", "passcode", "token"))


@click.group()
def config() -> None:
    """Check the configuration."""


@config.command()
@configured
@click.option("--all", "with_defaults", is_flag=True, help="Also what nobody set.")
@click.option("--offline", is_flag=True, help="Read only: try no directory, port, database or Keystone.")
@shown.listed
def check(given: Given, *, with_defaults: bool, offline: bool, output: shown.Output) -> int:
    """Say what is in force and where it was set; refuse what cannot work. Secrets are not shown.

    Run it as the user that runs Abaca: what a start needs is tried as that start would. What may pass, such as a
    database that is away, and what would cross a network in the clear is said and refuses nothing.
    """
    loaded = given.load()
    findings = list(app.examine(loaded.settings, (_state, _port))) if not offline else []
    for backend in loaded.settings.backends if offline else ():
        app.driver(loaded.settings, backend)
    for finding in findings:
        click.echo(f"abaca: {'' if finding.is_grave else 'note: '}{finding.text}", err=True)
    if any(finding.is_grave for finding in findings):
        return exits.EX_CONFIG
    rows = [row for row in _values(loaded) if with_defaults or row["source"] != "default"]
    shown.table(rows, output, brief=("section", "option", "value", "source"))
    if output.is_for_people:
        names = ", ".join(f"{backend.name} ({backend.driver})" for backend in loaded.settings.backends)
        click.echo(f"The configuration is right. Back ends: {names}.")
    return 0


def _state(settings: tree.Settings) -> None:
    StateDirectory(settings.state_path).check()


def _port(settings: tree.Settings) -> None:
    address, port = settings.osapi_share_listen, settings.osapi_share_listen_port
    try:
        ports.refuse_unless_free(address, port)
    except errors.ConfigError:
        if not ports.is_listened_on(address, port):
            raise
        if not StateDirectory(settings.state_path).is_running():
            raise errors.Unavailable(
                f"{address} port {port} is taken. Unless by this Abaca, stop what listens there or set "
                "osapi_share_listen_port"
            ) from None


def _values(loaded: settings.Loaded) -> Iterator[dict[str, str]]:
    tops = loaded.settings
    yield from _section(loaded, "DEFAULT", tops)
    for info in msgspec.structs.fields(type(tops)):
        if reading.section_class(info) is not None:
            yield from _section(loaded, info.name, getattr(tops, info.name))
    for webhook in tops.receivers:
        yield from _section(loaded, f"webhook_{webhook.name}", webhook)
    for subnet in tops.declared_subnets:
        yield from _section(loaded, f"subnet_{subnet.name}", subnet)
    for name, value in tops.keystone_authtoken.items():
        is_secret = name in _KEYSTONE_SECRETS or "password" in name or "secret" in name
        yield _row(loaded, "keystone_authtoken", name, "***" if is_secret else value)
    for backend in tops.backends:
        yield from _section(loaded, backend.name, backend)
        for name, value in backend.options.items():
            is_secret = any(word in name for word in ("password", "secret", "key", "token"))
            yield _row(loaded, backend.name, name, "***" if is_secret else value)


def _section(loaded: settings.Loaded, name: str, section: Section) -> Iterator[dict[str, str]]:
    for option, info in reading.option_names(type(section)).items():
        value = getattr(section, info.name)
        is_secret = bool((reading.meta(info).extra or {}).get("secret"))
        yield _row(loaded, name, option, "***" if is_secret and value is not None else _text(value))


def _row(loaded: settings.Loaded, section: str, option: str, value: str) -> dict[str, str]:
    return {
        "section": section,
        "option": option,
        "value": logs.masked(value),
        "source": loaded.sources.get((section, option), "default"),
    }


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value) if isinstance(value, (str, int, float, Path)) else repr(value)
