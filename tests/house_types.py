# SPDX-License-Identifier: Apache-2.0
"""The house rule about types: what is known of a value is said, and each package says it more often than before."""

import ast
from pathlib import Path

from tests.house_rules import python, rule

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


def names_any(node: ast.AST) -> bool:
    """Whether a node is the name `Any`; its import is not."""
    return (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")


def any_budget(root: Path) -> dict[str, int]:
    """How often each package may name it."""
    path = root / ANY_BUDGET
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {package: int(number) for package, number in pairs}
