# SPDX-License-Identifier: Apache-2.0
"""`abaca config`: what is in force, where it came from, and whether it can work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from abaca import app, logs, settings
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.settings import reading, tree

# Options of Keystone's plugins that are secret without being called so.
_KEYSTONE_SECRETS = frozenset(("access_key", "access_token", "code", "idp_otp_key", "passcode", "token"))


@click.group()
def config() -> None:
    """Check the configuration."""


@config.command()
@configured
@click.option("--all", "with_defaults", is_flag=True, help="Also what nobody set.")
@shown.listed
def check(given: Given, *, with_defaults: bool, output: shown.Output) -> None:
    """Say what is in force and where it was set; refuse what cannot work. Secrets are not shown."""
    loaded = given.load()
    for backend in loaded.settings.backends:
        app.driver(loaded.settings, backend)
    rows = [row for row in _values(loaded) if with_defaults or row["source"] != "default"]
    shown.table(rows, output, brief=("section", "option", "value", "source"))
    if output.is_for_people:
        names = ", ".join(f"{backend.name} ({backend.driver})" for backend in loaded.settings.backends)
        click.echo(f"The configuration is right. Back ends: {names}.")


def _values(loaded: settings.Loaded) -> Iterator[dict[str, str]]:
    tops = loaded.settings
    yield from _section(loaded, "DEFAULT", tops)
    for info in msgspec.structs.fields(type(tops)):
        if reading.section_class(info) is not None:
            yield from _section(loaded, info.name, getattr(tops, info.name))
    for webhook in tops.receivers:
        yield from _section(loaded, f"webhook_{webhook.name}", webhook)
    for name, value in tops.keystone_authtoken.items():
        is_secret = name in _KEYSTONE_SECRETS or "password" in name or "secret" in name
        yield _row(loaded, "keystone_authtoken", name, "***" if is_secret else value)
    for backend in tops.backends:
        yield from _section(loaded, backend.name, backend)
        for name, value in backend.options.items():
            is_secret = any(word in name for word in ("password", "secret", "key", "token"))
            yield _row(loaded, backend.name, name, "***" if is_secret else value)


def _section(loaded: settings.Loaded, name: str, section: tree.Section) -> Iterator[dict[str, str]]:
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
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value) if isinstance(value, (str, int, float, Path)) else repr(value)
