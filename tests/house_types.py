# SPDX-License-Identifier: Apache-2.0
"""The house rules about types: what is known of a value is said, and each package says it more often than before."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house_rules import Function, python, rule

ANY_BUDGET = "tests/golden/any_budget.txt"


@rule
def any_is_named_less_and_less(root: Path) -> list[str]:
    """A package of src/abaca names `Any` as often as its line in tests/golden/any_budget.txt says, never more often.

    Mend: name the entity of `domain` (`tx.entities` makes rows into it), `Row` for a row of columns that the API asks
    for, `object` for what is only handed on, a Protocol for what is called. Where one has gone, lower the number.
    """
    counts: dict[str, int] = {}
    for name, tree in python(root, "src/abaca"):
        package = name.removesuffix(".py").split("/")[2]
        counts[package] = counts.get(package, 0) + sum(map(names_any, ast.walk(tree)))
    budget = any_budget(root)
    return [
        f"{ANY_BUDGET}: {package} names Any {counts.get(package, 0)} times, its line says {budget.get(package, 0)}"
        for package in sorted({*counts, *budget})
        if counts.get(package, 0) != budget.get(package, 0)
    ]


# Of db/: what is no query of an area.
ENGINE = {"engine", "migrations", "tables"}
WORK = {"journal", "operations", "reconcile"}
# Who asks for columns by name gets rows of these.
ASKED = {"columns", "names"}


@rule
def rows_stay_with_who_asks_for_their_columns(root: Path) -> list[str]:
    """A query (a public function of db/<area>) gives a `Row` only to who names its columns, and says `Any` nowhere.

    What operations, the journal and reconcilers hand on is never a `Row`, but where the API has named the columns.

    Mend: make an entity of `domain`, or a small frozen struct beside the query, of each row: `tx.entities(Type,
    statement)` with `columns_of(Type, table)`. What is only written is a `Mapping[str, object]`. `Row` is for views:
    the function takes `names` or `columns`.
    """
    return [
        f"{name}:{function.lineno} {function.name} names {', '.join(sorted(breaches))}"
        for name, tree in python(root, "src/abaca/db", *(f"src/abaca/{package}" for package in sorted(WORK)))
        for function in queries(name, tree)
        if (breaches := untyped(function, {"Any", "Row"} if is_query(name) else {"Row"}))
    ]


def is_query(name: str) -> bool:
    """Whether a module holds queries of an area."""
    parts = name.split("/")
    return parts[2] == "db" and len(parts) == 5 and parts[3] not in ENGINE


def queries(name: str, tree: ast.Module) -> Iterator[Function]:
    """The functions that others see, and of what works with them all."""
    if name.split("/")[2] in WORK:
        yield from (node for node in ast.walk(tree) if isinstance(node, Function))
    elif is_query(name):
        yield from (node for node in tree.body if isinstance(node, Function) and not node.name.startswith("_"))


def untyped(function: Function, forbidden: set[str]) -> set[str]:
    """Those of the names that a function's annotations have and may not have."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    said = [function.returns, *(one.annotation for one in arguments)]
    found = {named(node) for one in said if one is not None for node in ast.walk(one)} & forbidden
    return found - {"Row"} if ASKED & {one.arg for one in arguments} else found


def named(node: ast.AST) -> str:
    """`Any` of `Any` and of `typing.Any`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def names_any(node: ast.AST) -> bool:
    """Whether a node is the name `Any`; its import is not."""
    return (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")


def any_budget(root: Path) -> dict[str, int]:
    """How often each package may name it."""
    path = root / ANY_BUDGET
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {package: int(number) for package, number in pairs}
