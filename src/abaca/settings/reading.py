# SPDX-License-Identifier: Apache-2.0
"""From INI files and the environment to the frozen tree.

The dialect is oslo.config's, read by its own parser: continuation lines, quotes, `$name` and `$section.name`, `$$` for
a dollar. Later files win over earlier ones, and `OS_<SECTION>__<OPTION>` in the environment wins over files.
"""

from __future__ import annotations

import difflib
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from oslo_config import iniparser

from abaca import errors
from abaca.settings import tree
from abaca.settings.events import Webhook
from abaca.settings.networks import DeclaredSubnet
from abaca.settings.options import Section

T = TypeVar("T")
Key = tuple[str, str]

# Fields that are sections of other names than their own.
_HANDED_ON = ("backends", "receivers", "declared_subnets", "keystone_authtoken")
_TRUE = frozenset(("true", "1", "yes", "on"))
_FALSE = frozenset(("false", "0", "no", "off"))
_REFERENCE = re.compile(r"\$(?:(\$)|\{?(?:(\w+)\.)?(\w+)\}?)")
_ENVIRONMENT = re.compile(r"^OS_([A-Za-z0-9_]+?)__([A-Za-z0-9_]+)$")


class Loaded(msgspec.Struct, frozen=True):
    """What `read` gives: the settings, and where each value that is not a default came from."""

    settings: tree.Settings
    sources: Mapping[Key, str]


class _Given(msgspec.Struct):
    text: str
    source: str


class _Reader(iniparser.BaseParser):
    def __init__(self, path: Path, given: dict[Key, _Given]) -> None:
        self._path = path
        self._given = given
        self._section: str | None = None
        self._line = 0

    def new_section(self, section: str) -> None:
        self._section = section

    def assignment(self, key: str, value: list[str]) -> None:
        if self._section is None:
            raise self.parse_exc("there must be a [section] line before the first option", self.lineno, key)
        self._given[self._section, key] = _Given("\n".join(value), f"{self._path}:{self._line}")

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        self._line = self.lineno
        split: tuple[str, list[str]] = super()._split_key_value(line)
        return split


def read(
    files: Iterable[Path | str] = (),
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Loaded:
    """The settings from `files` (a directory: its *.conf), the environment, and `overrides` from the command line.

    Raises `ConfigError` naming the place and the mend.
    """
    given: dict[Key, _Given] = {}
    paths = [path for item in files for path in _files_of(Path(item))]
    for path in paths:
        _read_file(path, given)
    given |= _from_environment(os.environ if environ is None else environ, given)
    for name, text in (overrides or {}).items():
        given["DEFAULT", name] = _Given(text, "command line")
    config_dir = paths[0].resolve().parent if paths else None
    settings = _build(_filled(given), config_dir)
    return Loaded(settings, {key: value.source for key, value in given.items()})


def option_names(cls: type) -> dict[str, msgspec.structs.FieldInfo]:
    """The options of a section by the names they have in files."""
    return {
        info.encode_name: info
        for info in msgspec.structs.fields(cls)
        if not is_internal(info) and section_class(info) is None and info.name not in _HANDED_ON
    }


def section_class(info: msgspec.structs.FieldInfo) -> type[Section] | None:
    """The struct behind a field that is a section, or None."""
    return info.type if isinstance(info.type, type) and issubclass(info.type, Section) else None


def meta(info: msgspec.structs.FieldInfo) -> msgspec.Meta:
    """The sentence and the marks of an option."""
    found = [m for m in getattr(info.type, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    return found[-1] if found else msgspec.Meta()


def is_internal(info: msgspec.structs.FieldInfo) -> bool:
    """Whether the field is filled in by reading, not by the operator."""
    return bool((meta(info).extra or {}).get("internal"))


def _files_of(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(path.glob("*.conf"))
    if not path.is_file():
        raise errors.ConfigError(problem=f"There is no configuration file {path}", mend="Make it, or name another")
    return [path]


def _read_file(path: Path, given: dict[Key, _Given]) -> None:
    try:
        _Reader(path, given).parse(path.read_text().splitlines())
    except iniparser.ParseError as error:
        raise errors.ConfigError(
            problem=f"{path}:{error.lineno}: {error.msg}", mend="Write `name = value` lines under [section] lines"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(problem=f"{path} cannot be read: {error}", mend="Make it UTF-8 text") from None


def _from_environment(environ: Mapping[str, str], given: Mapping[Key, _Given]) -> dict[Key, _Given]:
    """Names in the environment are upper case, so sections and options are found without regard to case."""
    sections = {section.lower(): section for section in [*_sections(), *(section for section, _ in given)]}
    names = {name.lower(): name for name in option_names(tree.Settings)}
    found: dict[Key, _Given] = {}
    for variable, text in environ.items():
        match = _ENVIRONMENT.match(variable)
        if match is None:
            continue
        section, name = (part.lower() for part in match.groups())
        section = sections.get(section, section)
        name = names.get(name, name) if section == "DEFAULT" else name
        found[section, name] = _Given(text, f"environment {variable}")
    return found


def _filled(given: Mapping[Key, _Given]) -> dict[str, dict[str, _Given]]:
    """The values by section, with `$name` replaced."""
    sections: dict[str, dict[str, _Given]] = {}
    for (section, name), value in given.items():
        text = value.text if section == "keystone_authtoken" else _replaced(section, value, given, depth=0)
        sections.setdefault(section, {})[name] = _Given(text, value.source)
    return sections


def _replaced(section: str, value: _Given, given: Mapping[Key, _Given], depth: int) -> str:
    def look_up(match: re.Match[str]) -> str:
        dollar, other, name = match.groups()
        if dollar:
            return "$"
        for place in (other,) if other else (section, "DEFAULT"):
            if (place, name) in given and depth < 8:
                return _replaced(place, given[place, name], given, depth + 1)
        default = option_names(tree.Settings).get(name) if other in (None, "DEFAULT") else None
        if default is not None and default.default is not msgspec.NODEFAULT:
            return str(default.default)
        raise errors.ConfigError(
            problem=f"{value.source}: {match.group(0)!r} names no option that is set", mend="Write $$ for a dollar sign"
        )

    return _REFERENCE.sub(look_up, value.text)


def _sections() -> dict[str, type[Section] | None]:
    """Every section the core knows, with its struct (None: handed on as it stands)."""
    known: dict[str, type[Section] | None] = {"DEFAULT": tree.Settings, "keystone_authtoken": None}
    for info in msgspec.structs.fields(tree.Settings):
        cls = section_class(info)
        if cls is not None:
            known[info.name] = cls
    return known


def _build(given: dict[str, dict[str, _Given]], config_dir: Path | None) -> tree.Settings:
    known = _sections()
    default = _struct(tree.Settings, "DEFAULT", given.get("DEFAULT", {}))
    if not default.state_path.is_absolute():
        raise errors.ConfigError(
            problem=f"state_path = {default.state_path} is not absolute", mend="Write the whole path, from /"
        )
    enabled = default.enabled_share_backends
    if len(set(enabled)) != len(enabled):
        raise errors.ConfigError(problem="enabled_share_backends names a back end twice", mend="Name each once")
    sections = {
        name: _struct(cls, name, given[name])
        for name, cls in known.items()
        if cls is not None and cls is not tree.Settings and name in given
    }
    lists = {kind.field: _several(kind, sections.get(kind.place), given) for kind in _LISTED}
    enabled = (*enabled, *(f"{kind.prefix}_{one.name}" for kind in _LISTED for one in lists[kind.field]))
    for section, options in given.items():
        if section not in known and section not in enabled:
            place = next((value.source for value in options.values()), "")
            mend = "Take it out, or add it to enabled_share_backends"
            for kind in _LISTED:
                if section.startswith(f"{kind.prefix}_"):
                    mend = f"Take it out, or add its name to {kind.option} in [{kind.place}]"
            _refuse_unknown(f"section [{section}]", place, section, [*known, *enabled], mend)
    authtoken = {name: value.text for name, value in given.get("keystone_authtoken", {}).items()}
    backends = tuple(_backend(name, given.get(name), default) for name in default.enabled_share_backends)
    more: dict[str, Any] = {"keystone_authtoken": authtoken, "backends": backends, **lists}
    return default.changed(**sections, **more, config_dir=config_dir)


class _Listed(typing.NamedTuple):
    """Sections `[<prefix>_<name>]`, for the names in an option of `[<place>]`; they fill a field of the settings."""

    prefix: str
    place: str
    option: str
    field: str
    cls: type[Webhook | DeclaredSubnet]
    needs: str


_LISTED = (
    _Listed("webhook", "events", "webhooks", "receivers", Webhook, "url and secret_file"),
    _Listed("subnet", "networks", "subnets", "declared_subnets", DeclaredSubnet, "cidr"),
)


def _several(
    kind: _Listed, place: Any, given: Mapping[str, Mapping[str, _Given]]
) -> tuple[Webhook | DeclaredSubnet, ...]:
    names: tuple[str, ...] = getattr(place, kind.option) if place is not None else ()
    if len(set(names)) != len(names):
        raise errors.ConfigError(problem=f"{kind.option} in [{kind.place}] names one twice", mend="Name each once")
    return tuple(_one_of(kind, name, given.get(f"{kind.prefix}_{name}")) for name in names)


def _one_of(kind: _Listed, name: str, given: Mapping[str, _Given] | None) -> Webhook | DeclaredSubnet:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise errors.ConfigError(
            problem=f"{name!r} cannot be the name of a {kind.prefix}", mend="Use letters, digits, '_' and '-'"
        )
    section = f"{kind.prefix}_{name}"
    if given is None:
        raise errors.ConfigError(
            problem=f"The {kind.prefix} {name} is named in [{kind.place}] but has no section",
            mend=f"Add [{section}] with {kind.needs}, or take it out of {kind.option}",
        )
    return _struct(kind.cls, section, given, internal={"name": name})


def _backend(name: str, given: Mapping[str, _Given] | None, default: tree.Settings) -> tree.Backend:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise errors.ConfigError(
            problem=f"{name!r} cannot be the name of a back end", mend="Use letters, digits, '.', '_' and '-'"
        )
    if given is None and name != "dummy":
        raise errors.ConfigError(
            problem=f"The back end {name} is enabled but has no section",
            mend=f"Add [{name}] with `driver = ...`, or take it out of enabled_share_backends",
        )
    given = given or {}
    core = {key: value for key, value in given.items() if key in option_names(tree.Backend)}
    if name == "dummy":
        core.setdefault("driver", _Given("dummy", ""))
    if "driver" not in core:
        close = " (found share_driver, which holds a class in Manila)" if "share_driver" in given else ""
        raise errors.ConfigError(
            problem=f"[{name}] does not say its driver{close}", mend="Add `driver = local` or another driver's name"
        )
    core.setdefault("share_backend_name", _Given(name, ""))
    core.setdefault("backend_availability_zone", _Given(default.storage_availability_zone, ""))
    options = {key: value.text for key, value in given.items() if key not in core}
    return _struct(tree.Backend, name, core, internal={"name": name, "options": options})


def _struct(
    cls: type[T],
    section: str,
    given: Mapping[str, _Given],
    *,
    internal: Mapping[str, Any] | None = None,
) -> T:
    known = option_names(cls)
    values: dict[str, Any] = dict(internal or {})
    for name, value in given.items():
        info = known.get(name)
        if info is None:
            _refuse_unknown(f"option {name} in [{section}]", value.source, name, [*known])
        values[info.name] = _value(info, section, value)
    for name, info in known.items():
        if info.required and info.name not in values:
            raise errors.ConfigError(problem=f"[{section}] does not set {name}", mend=f"Add `{name} = ...`")
    return cls(**values)


def _refuse_unknown(what: str, place: str, name: str, known: Sequence[str], otherwise: str = "") -> typing.NoReturn:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    mend = otherwise or "Take it out; the known names are: " + ", ".join(sorted(known))
    mend = f"Did you mean {close[0]}?" if close else mend
    raise errors.ConfigError(problem=f"{place}: unknown {what}" if place else f"Unknown {what}", mend=mend)


def _value(info: msgspec.structs.FieldInfo, section: str, given: _Given) -> object:
    text = given.text.strip()
    try:
        return msgspec.convert(_parsed(info.type, text), info.type, strict=False, dec_hook=_decode)
    except (ValueError, msgspec.ValidationError) as error:
        shown = "its value" if (meta(info).extra or {}).get("secret") else repr(text)
        place = f"{given.source}: " if given.source else ""
        raise errors.ConfigError(
            problem=f"{place}{info.encode_name} in [{section}] cannot be {shown}",
            mend=f"{str(error).split(' - at')[0]}. {meta(info).description or ''}".strip(),
        ) from None


def _decode(kind: type, value: object) -> object:
    return kind(value)


def _parsed(kind: Any, text: str) -> object:
    """`text` as what msgspec can check against `kind`: lists split at commas, booleans in all their spellings."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = kind.__origin__
    members = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    if type(None) in members and text in ("", "None", "<None>"):
        return None
    kind = next(member for member in members if member is not type(None))
    while typing.get_origin(kind) is typing.Annotated:
        kind = kind.__origin__
    if typing.get_origin(kind) in (tuple, list):
        return tuple(item.strip() for item in text.split(",") if item.strip())
    if typing.get_origin(kind) in (dict, Mapping) or kind is dict:
        return dict(item.strip().partition(":")[::2] for item in text.split(",") if item.strip())
    if kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError("Expected true or false")
    if typing.get_origin(kind) is typing.Literal and text not in typing.get_args(kind):
        raise ValueError("Choose one of " + ", ".join(typing.get_args(kind)))
    return Path(text) if kind is Path else text
