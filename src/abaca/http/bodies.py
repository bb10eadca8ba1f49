# SPDX-License-Identifier: Apache-2.0
"""What callers send: bodies and filters, declared like views, read leniently as the shared file system API always has.

    class CreateShare(Body, key="share", missing=422):
        size: Gib
        name: Name | None = None
        is_public: Flag = False
        share_group_id: Annotated[Uuid | None, Since("2.31")] = None

A field without a default is required. `unknown="refuse"` refuses fields that no version or only a later version knows;
the default drops them. `Since("2.41", refuse=True)` says so for one field. `UNSET` as default tells "not sent" from
null. A field may be another body, or a list of them: `node_groups: list[NodeGroup]`; these have marks of their own, and
an error names the place: 'node_groups[1].count'.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, dataclass_transform

import msgspec

from abaca import errors
from abaca.domain import ids, metadata
from abaca.http import paging, wire

# Tab, line feed and carriage return are text; what a database or a terminal could stumble over is not.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
# As many as one may ask a list for at once; each is a condition of the query.
MOST_PAIRS = 50

UNSET = msgspec.UNSET
UnsetType = msgspec.UnsetType


@dataclasses.dataclass(frozen=True, eq=False)
class Scalar:
    """How one kind of value is read: `read` returns it or raises ValueError, `must` ends "'field' must be ..."."""

    read: Callable[[Any], Any]
    must: str
    schema: Mapping[str, Any]


class Also(NamedTuple):
    """Another name under which a field may be sent; its own name wins."""

    name: str


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, str | int) else None
    if text in ("1", "true", "t", "yes", "y", "on"):
        return True
    if text in ("0", "false", "f", "no", "n", "off"):
        return False
    raise ValueError


def _whole(value: Any) -> int:
    # text too, but not all that Python takes for a number: digits of other scripts, 1_0, blanks
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 10**18:
        raise ValueError
    return value


def _gib(value: Any) -> int:
    size = _whole(value)
    if size < 1:
        raise ValueError
    return size


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 (one kind of failure for the reader)
    return value


def _name(value: Any) -> str:
    if len(_text(value)) > 255:
        raise ValueError
    return str(value)


def _uuid(value: Any) -> str:
    if not _UUID.fullmatch(_text(value)):
        raise ValueError
    return str(value)


def _id_prefix(value: object) -> str:
    found = ids.beginning(_text(value))
    if found is None:
        raise ValueError
    return found


def _time(value: Any) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(value)
    try:
        return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
    except OverflowError as beyond:
        raise ValueError from beyond


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004
    return value


def _pairs(value: Any) -> dict[str, str]:
    """A dict from its JSON or Python text, as clients write it in a query."""
    if not isinstance(value, str) or len(value) > 10_000:
        raise ValueError
    try:
        pairs = ast.literal_eval(value)
    except (SyntaxError, RecursionError, MemoryError, TypeError) as reason:
        raise ValueError from reason
    if not isinstance(pairs, dict):
        raise ValueError  # noqa: TRY004
    found = {str(key): str(item) for key, item in pairs.items()}
    # the literals have escapes of their own
    if len(found) > MOST_PAIRS or any(CONTROL.search(text) for pair in found.items() for text in pair):
        raise ValueError
    return found


_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")

Flag = Annotated[bool, Scalar(_flag, "a boolean", {"type": "boolean"})]
Whole = Annotated[int, Scalar(_whole, "a whole number", {"type": "integer"})]
Gib = Annotated[int, Scalar(_gib, "a whole number of GiB greater than 0", {"type": "integer", "minimum": 1})]
Text = Annotated[str, Scalar(_text, "text", {"type": "string"})]
Name = Annotated[str, Scalar(_name, "text of at most 255 characters", {"type": "string", "maxLength": 255})]
Uuid = Annotated[str, Scalar(_uuid, "a UUID", {"type": "string", "format": "uuid"})]
IdPrefix = Annotated[
    str,
    Scalar(_id_prefix, "the beginning of an id, such as 01a203a2-2bfa", {"type": "string", "maxLength": 36}),
]
Time = Annotated[
    datetime.datetime,
    Scalar(_time, "a time such as 2026-08-21T09:00:00", {"type": "string", "format": "date-time"}),
]
Object = Annotated[dict[str, Any], Scalar(_object, "an object", {"type": "object"})]
Metadata = Annotated[dict[str, str], Scalar(metadata.check, "an object of text", {"type": "object"})]
Pairs = Annotated[
    dict[str, str],
    Scalar(_pairs, "a dictionary, such as {'key': 'value'}", {"type": "string", "example": "{'k': 'v'}"}),
]


def among(names: Iterable[str]) -> Scalar:
    """How a text that is one of some is read; a field is Annotated with it."""
    known = tuple(sorted(names))

    def read(value: object) -> str:
        if value not in known:
            raise ValueError
        return str(value)

    return Scalar(read, f"one of: {', '.join(known)}", {"type": "string", "enum": list(known)})


_PLAIN: dict[Any, Any] = {bool: Flag, int: Whole, str: Text, dict: Object}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Body(wire.Declared):
    """What a caller sends under `key`; subclasses declare fields.

    `missing` is the status when there is nothing under the key; with `alone` nothing may stand beside it. Bodies of
    actions have no key: they stand under the action's name. Neither have bodies that stand in others.
    """

    KEYS: ClassVar[tuple[str, ...]] = ()
    REFUSES: ClassVar[bool] = False
    MISSING: ClassVar[Literal[400, 422]] = 400
    ALONE: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        key: str | tuple[str, ...] = (),
        unknown: Literal["drop", "refuse"] = "drop",
        missing: Literal[400, 422] = 400,
        alone: bool = False,
    ) -> None:
        cls.KEYS = (key,) if isinstance(key, str) else key
        cls.REFUSES = unknown == "refuse"
        cls.MISSING = missing
        cls.ALONE = alone
        for name in vars(cls).get("__annotations__", {}).keys() - vars(cls).keys():
            setattr(cls, name, dataclasses.field())  # else a default of the base would make it optional
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)


class Anything(Body):
    """A body that is no object of known fields: the handler checks `sent` itself."""

    sent: Any


def flag(name: str, value: Any) -> bool:
    """A boolean as the API takes it. Raises Invalid naming it."""
    return bool(_reading(Flag, 0, is_admin=False)(value, name))


class Filters(wire.Declared):
    """What a caller may ask a list for; subclasses declare fields, all optional. Handlers get a dict of those sent.

    `unknown="refuse"` refuses what is neither a field nor about pages; else that is passed over, as clients expect.
    """

    REFUSES: ClassVar[bool] = False

    def __init_subclass__(cls, *, unknown: Literal["drop", "refuse"] = "drop") -> None:
        cls.REFUSES = unknown == "refuse"


Read = Callable[[Any, str], Any]


class Reader(NamedTuple):
    """One field of a body or of filters at one version; `read(sent, name)` gives its value or raises Invalid."""

    attr: str
    names: tuple[str, ...]
    type: Any
    read: Read
    required: bool
    known: bool
    refuse: bool
    since: str


def read_body(body: type[Body], version: int, sent: Any, *, is_admin: bool) -> Any:
    """An instance of `body` from the object that was sent. Raises Invalid, naming the field and what it must be."""
    if body is Anything:
        return Anything(sent=sent)
    sent = {} if sent is None else sent
    if not isinstance(sent, dict):
        raise errors.Invalid("The body must be an object.")
    return _read(body, readers(body, version, is_admin=is_admin), sent, "")


def _read(body: type[Body], fields: tuple[Reader, ...], sent: dict[str, Any], at: str) -> Any:
    """`at` is what stands before the names of the fields in errors: `node_groups[1].`, or nothing."""
    values: dict[str, Any] = {}
    for field in fields:
        for name in field.names:
            if name in sent:
                _take(field, sent, name, at, values)
                break
        else:
            if field.required and field.known:
                raise errors.Invalid(f"'{at}{field.names[0]}' is required.")
    if body.REFUSES:
        _refuse({at + name for name in sent.keys() - {name for field in fields for name in field.names}})
    return body(**values)


def _take(field: Reader, sent: Mapping[str, object], name: str, at: str, values: dict[str, object]) -> None:
    if field.known:
        values[field.attr] = field.read(sent[name], at + name)
    elif field.refuse:
        raise errors.Invalid(f"'{at}{name}' needs microversion {field.since} or later.")


def read_filters(filters: type[Filters], version: int, query: Mapping[str, str], *, is_admin: bool) -> dict[str, Any]:
    """The filters that were sent and that this version knows, by attribute. Raises Invalid."""
    found: dict[str, Any] = {}
    places = _places(filters, wire.interval(filters, version), is_admin)
    # few are sent of the many that there are
    sent = {place for name in query if name in places for place in places[name]}
    if sent:
        fields = readers(filters, version, is_admin=is_admin)
        for field in [fields[place] for place in sorted(sent)]:
            _take(field, query, next(name for name in field.names if name in query), "", found)
    if filters.REFUSES:
        _refuse(query.keys() - places.keys() - set(paging.NAMES))
    return found


@wire.once
def _places(filters: type[Filters], version: int, is_admin: bool) -> Mapping[str, list[int]]:  # noqa: FBT001 (a cache key)
    """Which of the fields each name means."""
    found: dict[str, list[int]] = {}
    for place, field in enumerate(_readers(filters, version, is_admin)):
        for name in field.names:
            found.setdefault(name, []).append(place)
    return found


def _refuse(unknown: Collection[str]) -> None:
    if unknown:
        raise errors.Invalid(f"Nothing is known of {', '.join(repr(name) for name in sorted(unknown)[:5])} here.")


def readers(declared: type[Any], version: int, *, is_admin: bool = True) -> tuple[Reader, ...]:
    """How each field of a body or of filters is read at a version."""
    return _readers(declared, wire.interval(declared, version), is_admin)


@wire.once
def _readers(declared: type[Any], version: int, is_admin: bool) -> tuple[Reader, ...]:  # noqa: FBT001 (a cache key)
    is_body = dataclasses.is_dataclass(declared)
    optional = {field.name for field in dataclasses.fields(declared) if _has_default(field)} if is_body else None
    found = []
    for field in wire.fields_of(declared):
        since = field.first(wire.Since)
        refuse = since.refuse if since and since.refuse is not None else getattr(declared, "REFUSES", False)
        names = (field.name(version), *(also.name for also in field.all(Also)))
        declared_type = _type_with(field)
        found.append(
            Reader(
                field.attr,
                names,
                declared_type,
                _reading(declared_type, version, is_admin=is_admin),
                required=optional is not None and field.attr not in optional,
                known=field.known(version, is_admin=is_admin),
                refuse=bool(refuse),
                since=since.version if since else "",
            )
        )
    return tuple(found)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _type_with(field: wire.Field) -> Any:
    """The declared type; a Scalar that stood beside the marks is put back on it."""
    scalar = field.first(Scalar)
    return Annotated[field.type, scalar] if scalar else field.type


def _reading(declared: Any, version: int, *, is_admin: bool) -> Read:
    """How a value of the declared type is read, by `fn(sent, name)`: it raises Invalid under that name."""
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        scalar = next((mark for mark in declared.__metadata__ if isinstance(mark, Scalar)), None)
        return _scalar(scalar) if scalar else _reading(declared.__origin__, version, is_admin=is_admin)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in parts if kind not in (type(None), UnsetType)]
        read = _reading(kinds[0], version, is_admin=is_admin)
        return _or_null(read) if type(None) in parts else read
    if origin is Literal:
        return _choice(parts)
    if origin is list:
        return _list(_reading(parts[0], version, is_admin=is_admin))
    if isinstance(declared, type) and issubclass(declared, Body):
        return _nested(declared, readers(declared, version, is_admin=is_admin))
    if declared is Any:
        return _as_sent
    return _reading(_PLAIN[dict if origin is dict else declared], version, is_admin=is_admin)


def _scalar(scalar: Scalar) -> Read:
    def read(sent: Any, name: str) -> Any:
        try:
            return scalar.read(sent)
        except (ValueError, TypeError):
            raise errors.Invalid(f"'{name}' must be {scalar.must}.") from None

    return read


def _or_null(read: Read) -> Read:
    return lambda sent, name: None if sent is None else read(sent, name)


def _choice(choices: tuple[Any, ...]) -> Read:
    def read(sent: Any, name: str) -> Any:
        if sent not in choices:
            raise errors.Invalid(f"'{name}' must be one of: {', '.join(str(choice) for choice in choices)}.")
        return sent

    return read


def _list(item: Read) -> Read:
    def read(sent: Any, name: str) -> Any:
        if not isinstance(sent, list):
            raise errors.Invalid(f"'{name}' must be a list.")
        return [item(one, f"{name}[{place}]") for place, one in enumerate(sent)]

    return read


def _nested(body: type[Body], fields: tuple[Reader, ...]) -> Read:
    def read(sent: Any, name: str) -> Any:
        if not isinstance(sent, dict):
            raise errors.Invalid(f"'{name}' must be an object.")
        return _read(body, fields, sent, f"{name}.")

    return read


def _as_sent(sent: Any, _name: str) -> Any:
    return sent
