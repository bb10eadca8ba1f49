# SPDX-License-Identifier: Apache-2.0
"""Microversions as marks on fields: with routing.py and pipeline.py the only code that reads a version.

A field of a view, a body or a set of filters says in `Annotated` since when, until when and under which name it is on
the wire; handlers see the newest shape alone. Changed behaviour has a name: a `Feature` for which handlers ask
`call.has`.

    class ShareView(View):
        id: str
        share_type: Annotated[str, Column("share_type_id"), Was("2.5", Column("share_type_name"))]
        links: Annotated[list[Link], Computed(links_of("shares"), needs=("id",))]
        host: Annotated[str | None, AdminOnly()]
        mount_point_name: Annotated[str | None, Since("2.84")]
"""

from __future__ import annotations

import bisect
import datetime
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar

import msgspec

NEVER = 1_000_000
P = ParamSpec("P")
T = TypeVar("T")


def once(fn: Callable[P, T]) -> Callable[P, T]:
    """The function, called once for each set of arguments, all of which are types, numbers and the like."""
    return typing.cast("Callable[P, T]", functools.cache(fn))


def minor(number: str) -> int:
    """The part of a microversion that counts: 84 for "2.84"."""
    return int(number.partition(".")[2])


@dataclass(frozen=True)
class Since:
    """On the wire from this version on. Sent earlier it is refused or dropped, as `refuse` or else its class says."""

    version: str
    refuse: bool | None = None


@dataclass(frozen=True)
class Until:
    """On the wire up to and including this version."""

    version: str


@dataclass(frozen=True)
class Named:
    """The name on the wire, where it cannot be a Python name."""

    name: str


@dataclass(frozen=True)
class Renamed:
    """The name on the wire up to and including this version."""

    until: str
    name: str


@dataclass(frozen=True)
class AdminOnly:
    """Shown to administrators, and taken from them, only."""


@dataclass(frozen=True)
class Column:
    """The column that a field shows, where it is not called like the field."""

    name: str


@dataclass(frozen=True)
class Computed:
    """A field made by `fn(call, *values of the columns it needs)`."""

    fn: Callable[..., Any]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Was:
    """Another source of the value up to and including this version."""

    until: str
    source: Column | Computed


class Feature(NamedTuple):
    """A behaviour that changed with a version; handlers ask `call.has(FEATURE)`."""

    name: str
    since: str
    says: str


# How a time is shown: UTC, without saying so, always with microseconds.
Stamp = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$")]


class Link(msgspec.Struct, frozen=True, gc=False):
    """One way to a thing."""

    rel: str
    href: str


class Field(NamedTuple):
    """A declared field with its marks sorted out."""

    attr: str
    type: Any
    marks: tuple[Any, ...]

    def first(self, kind: type[Any]) -> Any:
        """The mark of this kind, or None."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    def all(self, kind: type[Any]) -> list[Any]:
        """All marks of this kind."""
        return [mark for mark in self.marks if isinstance(mark, kind)]

    @property
    def since(self) -> int:
        """The first version that knows it."""
        mark = self.first(Since)
        return minor(mark.version) if mark else 0

    @property
    def until(self) -> int:
        """The last version that knows it."""
        mark = self.first(Until)
        return minor(mark.version) if mark else NEVER

    def known(self, version: int, *, is_admin: bool = True) -> bool:
        """Whether it exists at this version for such a caller."""
        return self.since <= version <= self.until and (is_admin or self.first(AdminOnly) is None)

    def name(self, version: int) -> str:
        """What it is called on the wire."""
        for mark in sorted(self.all(Renamed), key=lambda mark: minor(mark.until)):
            if version <= minor(mark.until):
                return str(mark.name)
        named = self.first(Named)
        return named.name if named else self.attr

    def source(self, version: int) -> Column | Computed:
        """Where its value comes from."""
        for mark in sorted(self.all(Was), key=lambda mark: minor(mark.until)):
            if version <= minor(mark.until):
                return typing.cast("Column | Computed", mark.source)
        return self.first(Computed) or self.first(Column) or Column(self.attr)

    def changes(self) -> set[int]:
        """The versions at which something about it changes."""
        ends = [minor(mark.until) for mark in (*self.all(Renamed), *self.all(Was))]
        return {self.since, self.until + 1, *(end + 1 for end in ends)}


class Declared:
    """What views, bodies and filters have in common: fields with marks, so that they look different at versions."""


def declared_in(kind: Any) -> list[type[Any]]:
    """The classes with marked fields that a type is made of: `list[PartView] | None` is made of `PartView`."""
    if isinstance(kind, type) and issubclass(kind, Declared):
        return [kind]
    return [one for part in typing.get_args(kind) for one in declared_in(part)]


@once
def fields_of(declared: type[Any]) -> tuple[Field, ...]:
    """The fields that a class and its bases declare, bases first."""
    hints: dict[str, Any] = {}
    for base in reversed(declared.__mro__):
        # Evaluated in the module's names alone, so that a field may be called like a module or a type.
        where = vars(sys.modules[base.__module__])
        hints |= inspect.get_annotations(base, globals=where, locals={}, eval_str=True)
    found = []
    for attr, hint in hints.items():
        if attr.startswith("_") or typing.get_origin(hint) is typing.ClassVar:
            continue
        marked = typing.get_origin(hint) is Annotated
        found.append(Field(attr, hint.__origin__ if marked else hint, hint.__metadata__ if marked else ()))
    return tuple(found)


@once
def changes_of(declared: type[Any]) -> tuple[int, ...]:
    """The versions at which the class looks different, in order, from 0."""
    fields = fields_of(declared)
    nested = (changes_of(one) for field in fields for one in declared_in(field.type))
    found = {0}.union(*(field.changes() for field in fields), *nested)
    return tuple(sorted(version for version in found if version < NEVER))


def interval(declared: type[Any], version: int) -> int:
    """The version at which the look that `version` has began: all versions between share what is compiled for it."""
    changes = changes_of(declared)
    return changes[bisect.bisect_right(changes, version) - 1]


class View(Declared):
    """A thing as the API shows it: subclasses declare fields, and are never instantiated."""


Rows = Sequence[Sequence[Any]]
Struct = msgspec.Struct


class Shape(NamedTuple):
    """A view at one interval of versions for one kind of caller."""

    struct: type[Struct]
    columns: tuple[str, ...]
    show_all: Callable[[object, Rows], list[Struct]]

    def show(self, call: object, row: Sequence[Any]) -> Struct:
        """The row as it is encoded."""
        return self.show_all(call, (row,))[0]


def shape(view: type[View], version: int, *, is_admin: bool) -> Shape:
    """The columns to ask for, and the function from a call and rows of them to what is encoded."""
    return _shape(view, interval(view, version), is_admin)


@once
def _shape(view: type[View], version: int, is_admin: bool) -> Shape:  # noqa: FBT001 (a cache key)
    plain: list[tuple[Field, str]] = []
    made: list[tuple[Field, Column | Computed]] = []
    for field in fields_of(view):
        if not field.known(version, is_admin=is_admin):
            continue
        source = field.source(version)
        if isinstance(source, Column) and not _is_time(field.type) and not declared_in(field.type):
            plain.append((field, source.name))
        else:
            made.append((field, source))
    columns = [name for _, name in plain]
    makers = [_shown_as(field.type, version, is_admin, _maker(field.type, source, columns)) for field, source in made]
    fields = [field for field, _ in (*plain, *made)]
    struct = msgspec.defstruct(
        view.__name__,
        [(field.attr, resolved(field.type, version, is_admin=is_admin)) for field in fields],
        rename={field.attr: field.name(version) for field in fields},
        module=view.__module__,
        frozen=True,
        gc=False,
    )
    width = len(plain)

    def show_all(call: object, rows: Rows) -> list[Struct]:
        if not rows:
            return []
        # a field at a time: half of what row by row takes
        found = tuple(zip(*rows, strict=True)) or (rows,)
        return list(map(struct, *found[:width], *[make(call, found) for make in makers]))

    return Shape(struct, tuple(columns), show_all)


def resolved(declared: Any, version: int, *, is_admin: bool) -> Any:
    """The type with each view in it as it looks at this version."""
    if declared is datetime.datetime:
        return Stamp
    views = declared_in(declared)
    if not views and not _is_time(declared):
        return declared
    if views and declared is views[0]:
        return shape(declared, version, is_admin=is_admin).struct
    parts = [resolved(part, version, is_admin=is_admin) for part in typing.get_args(declared)]
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, parts)
    return typing.get_origin(declared)[tuple(parts)]


Show = Callable[[object, Any], Any]


def showing(declared: Any, version: int, *, is_admin: bool) -> Show | None:
    """How a value of this type is shown at a version, by `fn(call, value)`; None when there is no view in the type.

    Where a view is declared the value holds a row in the order of its columns, a dict by their names, or what has been
    shown already. Raises TypeError for a type that holds views in another way than as lists, values of dicts, or
    beside None and UNSET.
    """
    if not declared_in(declared):
        return None
    if isinstance(declared, type) and issubclass(declared, View):
        return _showing_view(shape(declared, version, is_admin=is_admin))
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    found = [show for part in parts if (show := showing(part, version, is_admin=is_admin)) is not None]
    if len(found) != 1:
        raise TypeError(f"{declared} holds several views")
    inner = found[0]
    if origin is list:
        return lambda call, values: [inner(call, value) for value in values]
    if origin is dict:
        return lambda call, values: {name: inner(call, value) for name, value in values.items()}
    if origin in (typing.Union, types.UnionType):
        return lambda call, value: value if value is None or value is msgspec.UNSET else inner(call, value)
    raise TypeError(f"{declared} holds a view in a way that nobody can show")


def _showing_view(shape: Shape) -> Show:
    def show(call: object, value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return value
        return shape.show(call, [value[name] for name in shape.columns] if isinstance(value, dict) else value)

    return show


# The values of a column, one for each row; and what makes those of a field from all columns.
Values = Sequence[Any]
Make = Callable[[object, Sequence[Values]], Values]


def _shown_as(declared: Any, version: int, is_admin: bool, make: Make) -> Make:  # noqa: FBT001 (as its callers have it)
    """The same for a field: what `make` gives is shown as the field's type says."""
    show = showing(declared, version, is_admin=is_admin)
    return make if show is None else lambda call, found: [show(call, value) for value in make(call, found)]


def _maker(kind: Any, source: Column | Computed, columns: list[str]) -> Make:
    """What makes the values of one field; asks for the columns that it needs by adding them to `columns`."""
    if isinstance(source, Column):
        at = _index(source.name, columns)
        return _stamper(at) if _is_time(kind) else lambda _call, found: found[at]
    fn = source.fn
    if not source.needs:
        return lambda call, found: [fn(call) for _ in found[0]]
    if len(source.needs) == 1:
        at = _index(source.needs[0], columns)
        return lambda call, found: [fn(call, value) for value in found[at]]
    pick = operator.itemgetter(*(_index(name, columns) for name in source.needs))
    return lambda call, found: [fn(call, *values) for values in zip(*pick(found), strict=True)]


def _index(name: str, columns: list[str]) -> int:
    if name not in columns:
        columns.append(name)
    return columns.index(name)


def _stamper(at: int) -> Make:
    def stamp(_call: object, found: Sequence[Values]) -> Values:
        return [value.isoformat("T", "microseconds") if value is not None else None for value in found[at]]

    return stamp


def _is_time(declared: Any) -> bool:
    return declared is datetime.datetime or datetime.datetime in typing.get_args(declared)


@dataclass(frozen=True)
class One:
    """The answer is one thing under a key (or, as share types are, under several)."""

    keys: tuple[str, ...]
    view: type[View]

    def __init__(self, key: str | tuple[str, ...], view: type[View]) -> None:
        object.__setattr__(self, "keys", (key,) if isinstance(key, str) else key)
        object.__setattr__(self, "view", view)

    @property
    def kind(self) -> Any:
        """What stands under the key."""
        return self.view


@dataclass(frozen=True)
class Counted:
    """A list knows `with_count` from this version on. It counts all, or `most` and says that there are more."""

    since: str
    most: int | None = None


# By our own door no count reads more than that.
COUNTED = Counted("1.0", most=10_000)


@dataclass(frozen=True)
class Many:
    """The answer is a list under a key; `links` is the key of the link to the next page, where the resource has one."""

    keys: tuple[str, ...]
    view: type[View]
    links: str | None = None
    counted: Counted | None = None

    def __init__(
        self, key: str | tuple[str, ...], view: type[View], *, links: str | None = None, counted: Counted | None = None
    ) -> None:
        object.__setattr__(self, "keys", (key,) if isinstance(key, str) else key)
        object.__setattr__(self, "view", view)
        object.__setattr__(self, "links", links)
        object.__setattr__(self, "counted", counted)

    def is_counted(self, version: int) -> bool:
        """Whether `with_count` is understood."""
        return self.counted is not None and version >= minor(self.counted.since)

    @property
    def kind(self) -> Any:
        """What each of the list is."""
        return self.view


@dataclass(frozen=True)
class Plain:
    """The answer is what the handler returns, of this type, under a key or (None) bare.

    Views in the type are shown as the asked version knows them: `Plain(None, SwitchedView)`,
    `Plain("refused", list[RefusedView])`. The handler gives for each a dict of its columns, or a row in their order.
    """

    key: str | None
    type: Any

    @property
    def kind(self) -> Any:
        """What stands under the key, or is the answer."""
        return self.type


Answer = One | Many | Plain
