# SPDX-License-Identifier: Apache-2.0
"""The house rules about who imports whom, beyond what the contracts of import-linter in pyproject.toml can say."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house_rules import dotted, python, rule


@rule
def no_import_leads_back(root: Path) -> list[str]:
    """Modules never import each other in a circle, not for types alone and not inside functions either.

    Mend: move what both need into a module below both, or hand it in as a value or a function.
    """
    return [" -> ".join(circle) for circle in circles(imports_between_modules(root))]


def imports_between_modules(root: Path) -> dict[str, set[str]]:
    """Which of our own modules each imports, wherever in it."""
    trees = dict(python(root, "src", "lab"))
    known = {module_of(name) for name in trees}
    return {module_of(name): set(imported(name, tree, known)) - {module_of(name)} for name, tree in trees.items()}


def module_of(name: str) -> str:
    """The dotted name of a file: `abaca.db` for src/abaca/db/__init__.py."""
    return ".".join(Path(name.removeprefix("src/")).with_suffix("").parts).removesuffix(".__init__")


def imported(name: str, tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Those of the known modules that a file imports; `from a import b` is an import of a.b where there is one."""
    package = Path(name.removeprefix("src/")).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            whence = ".".join((*start, *(node.module or "").split("."))).strip(".")
            for alias in node.names:
                module = f"{whence}.{alias.name}"
                yield from {module if module in known else whence} & known


def circles(imported: Mapping[str, set[str]]) -> list[list[str]]:
    """One way round for each set of modules that lead to each other, from its first module back to it."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for start in sorted(imported):
        way = way_back(start, imported) if start not in seen else []
        if way:
            found.append(way)
            seen.update(reached(start, imported) & {one for one in imported if start in reached(one, imported)})
    return found


def reached(start: str, imported: Mapping[str, set[str]]) -> set[str]:
    """All modules that a module imports, and those that they import, and so on."""
    found: set[str] = set()
    rest = [start]
    while rest:
        new = imported[rest.pop()] - found
        found |= new
        rest += new
    return found


def way_back(start: str, imported: Mapping[str, set[str]]) -> list[str]:
    """The shortest way of imports from a module back to itself, or nothing."""
    before: dict[str, str] = {}
    row = [start]
    for module in row:
        for one in sorted(imported[module] - before.keys()):
            before[one] = module
            row.append(one)
    if start not in before:
        return []
    way = [start, before[start]]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


@rule
def areas_leave_the_handlers_of_others_alone(root: Path) -> list[str]:
    """A module of an area of the API imports no module of another area that declares routes.

    Another area's domain and queries are open to it, and in the API what belongs to no route: how a thing is found for
    its caller, what may be seen of it.

    Mend: move what both need out of the module with the routes, into one that is named for what it holds.
    """
    trees = {name: tree for name, tree in python(root, "src/abaca/api") if len(Path(name).parts) > 4}
    handlers = {module_of(name) for name, tree in trees.items() if declares_routes(tree)}
    return [
        f"{name}: imports {other}"
        for name, tree in trees.items()
        for other in sorted(set(imported(name, tree, handlers)))
        if other.split(".")[2] != Path(name).parts[3]
    ]


def declares_routes(tree: ast.Module) -> bool:
    """Whether a module makes a `Resource`, to which routes are added."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(dotted(call.func).rpartition(".")[2] == "Resource" for call in calls)
