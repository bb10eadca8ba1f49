# SPDX-License-Identifier: Apache-2.0
"""The house rules about code, as functions: each takes the root of a tree and gives one line per breach.

A rule's docstring is what the person who broke it reads: the rule, and how to mend it.
`test_house.py` runs them all over this repository and proves each with a planted breach.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

MODULE_LINES = 500
CLASS_LINES = 250
FUNCTION_LINES = 60
PARAMETERS = 6
EXEMPTIONS = "tests/golden/budget_exemptions.txt"
EXEMPTIONS_AT_MOST = 0

VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
VERSION_READERS = {"doors.py", "versions.py"}
DATABASE_MODULES = {"abaca.db", "alembic", "psycopg", "sqlalchemy"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[Path], list[str]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    """Adds a function to the list that `test_house.py` runs."""
    RULES.append(function)
    return function


def files(root: Path, *patterns: str) -> list[Path]:
    """The files of the tree that match; in a repository those that git knows or would know, else all."""
    if (root / ".git").exists():
        command = [
            "git",
            "-c",
            "safe.directory=*",
            "-C",
            str(root),
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        known = {root / name for name in names}
    else:
        known = {path for path in root.rglob("*") if not any(part.startswith(".venv") for part in path.parts)}
    return sorted(path for path in known if path.is_file() and any(path.match(pattern) for pattern in patterns))


def python(root: Path, *places: str) -> Iterator[tuple[str, ast.Module]]:
    """Name and syntax tree of each Python file in the places, folders or modules."""
    for path in files(root, "*.py"):
        name = str(path.relative_to(root))
        if name.startswith(tuple(place + end for place in places for end in ("/", ".py"))):
            yield name, parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file; each is read once."""
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports, `from a import b` as both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def is_within(module: str, packages: set[str]) -> bool:
    """Whether a dotted name is one of the packages or below one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def dotted(node: ast.expr) -> str:
    """`a.b.c` as written, or what is left of it after calls and subscripts."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def over_budget(root: Path) -> dict[str, str]:
    """What exceeds a budget, by the name it would have in the exemption list."""
    found = {}
    for name, tree in python(root, "src", "lab", "tests", "benchmarks"):
        if "/migrations/versions/" in name:  # Written once, never maintained.
            continue
        lines = len((root / name).read_text().splitlines())
        if lines > MODULE_LINES:
            found[name] = f"{lines} lines, at most {MODULE_LINES}"
        for node in ast.walk(tree):
            if isinstance(node, Function):
                found.update(oversized(name, node))
            elif isinstance(node, ast.ClassDef) and length(node) > CLASS_LINES:
                found[f"{name}::{node.name}"] = f"{length(node)} lines, at most {CLASS_LINES}"
    return found


def length(node: Function | ast.ClassDef) -> int:
    """The lines from `def` or `class` to the end."""
    return (node.end_lineno or 0) - node.lineno + 1


def oversized(name: str, function: Function) -> dict[str, str]:
    """The budgets that one function exceeds; a test may ask for as many fixtures as it needs."""
    lines = length(function)
    given = function.args
    parameters = [
        arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs) if arg.arg not in {"self", "cls"}
    ]
    if lines > FUNCTION_LINES:
        return {f"{name}::{function.name}": f"{lines} lines, at most {FUNCTION_LINES}"}
    if len(parameters) > PARAMETERS and not name.startswith("tests/"):
        return {f"{name}::{function.name}": f"{len(parameters)} parameters, at most {PARAMETERS}"}
    return {}


def exemptions(root: Path) -> list[str]:
    """The names in the exemption list."""
    path = root / EXEMPTIONS
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


@rule
def modules_classes_and_functions_stay_small(root: Path) -> list[str]:
    """Modules have at most 500 lines, classes 250, functions 60 lines and 6 parameters.

    Mend: split by the noun or by the step that a reader looks for; make many parameters one frozen value.
    """
    exempt = exemptions(root)
    return [f"{name}: {why}" for name, why in over_budget(root).items() if name not in exempt]


@rule
def the_exemption_list_only_shrinks(root: Path) -> list[str]:
    """The list of exemptions from the budgets may only shrink.

    Mend: delete lines that are no longer needed, lower EXEMPTIONS_AT_MOST with them; never add one.
    """
    exempt = exemptions(root)
    found = over_budget(root)
    stale = [f"{EXEMPTIONS}: {name} is within its budget now" for name in exempt if name not in found]
    grown = (
        [f"{EXEMPTIONS}: {len(exempt)} lines, at most {EXEMPTIONS_AT_MOST}"] if len(exempt) > EXEMPTIONS_AT_MOST else []
    )
    return stale + grown


@rule
def modules_are_named_for_what_they_hold(root: Path) -> list[str]:
    """No module is called utils, helpers, common, misc, manager or base: such names collect strangers.

    Mend: name the module for the one thing it holds, or move each function to the module whose word it uses.
    """
    names = (path.relative_to(root) for path in files(root, "*.py"))
    return [
        f"{name}: a vague name" for name in names if VAGUE_NAMES & {part.removesuffix(".py") for part in name.parts}
    ]


@rule
def private_names_stay_in_their_module(root: Path) -> list[str]:
    """A name that begins with an underscore is used in its own module only.

    Mend: give the name its place in public, or ask the module for what you want by a public function.
    """
    found = []
    for name, tree in python(root, "src", "lab"):
        imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        ours = [node for node in imported if (node.module or "").partition(".")[0] in {"abaca", "lab"}]
        modules = {alias.asname or alias.name for node in ours for alias in node.names}
        for node in ast.walk(tree):
            if node in ours:
                taken = [alias.name for alias in node.names]
            else:
                taken = [node.attr] if isinstance(node, ast.Attribute) and dotted(node.value) in modules else []
            found += [f"{name}:{node.lineno}: takes {one}" for one in taken if one.startswith("_") and one[:2] != "__"]
    return found


@rule
def the_domain_is_plain_python(root: Path) -> list[str]:
    """`domain` and `errors` import the standard library, msgspec for values, each other, and nothing else.

    Mend: what needs a framework, the database or a setting belongs in a layer above; give the domain plain values.
    """
    allowed = {*sys.stdlib_module_names, "msgspec", "abaca.domain", "abaca.errors"}
    return [
        f"{name}:{line}: imports {module}"
        for name, tree in python(root, "src/abaca/domain", "src/abaca/errors")
        for line, module in imports(tree)
        if module != "abaca" and not is_within(module, allowed)
    ]


@rule
def drivers_never_see_the_database(root: Path) -> list[str]:
    """Nothing in `drivers` imports the database, or the libraries it is reached by.

    Mend: take what is needed as a value in the call, and give back what was recorded as a value.
    """
    return [
        f"{name}:{line}: imports {module}"
        for name, tree in python(root, "src/abaca/drivers")
        for line, module in imports(tree)
        if is_within(module, DATABASE_MODULES)
    ]


@rule
def every_driver_has_a_harness(root: Path) -> list[str]:
    """Every storage driver has an entry in tests/drivers/harness.py, so that the contract tests run on it.

    Mend: add an entry under the module's name, with the fake or the real back end that the tests may use.
    """
    harness = root / "tests/drivers/harness.py"
    named = set()
    if harness.exists():
        named = {node.value for node in ast.walk(parsed(harness)) if isinstance(node, ast.Constant)}
    return [
        f"{name}: no harness named {driver_name(name)!r} in tests/drivers/harness.py"
        for name, tree in python(root, "src/abaca/drivers")
        if is_driver(tree) and driver_name(name) not in {*named, "contract", "wrappers"}
    ]


def driver_name(name: str) -> str:
    """The driver that a module is, or is a part of."""
    return Path(name).relative_to("src/abaca/drivers").parts[0].removesuffix(".py")


def is_driver(tree: ast.Module) -> bool:
    """Whether a module defines a subclass of the contract's Driver."""
    bases = (dotted(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases)
    return any(base.rpartition(".")[2] == "Driver" for base in bases)


@rule
def handlers_never_read_the_version(root: Path) -> list[str]:
    """In src/abaca/api only the doors and their versions (VERSION_READERS) read a microversion, no handler.

    Mend: give the field Since, Until or Was; for changed behaviour declare a Feature and ask `call.has(feature)`.
    """
    return [
        f"{name}:{node.lineno}: reads or compares a version"
        for name, tree in python(root, "src/abaca/api")
        if Path(name).name not in VERSION_READERS
        for node in ast.walk(tree)
        if reads_version(node)
    ]


def reads_version(node: ast.AST) -> bool:
    """Whether a node names a microversion, or compares something called a version or written like one."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        names = {dotted(operand).rpartition(".")[2] for operand in operands}
        texts = [operand.value for operand in operands if isinstance(operand, ast.Constant)]
        return any(name == "version" or name.endswith("_version") for name in names) or any(
            isinstance(text, str) and re.fullmatch(r"2\.\d+", text) for text in texts
        )
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "microversion" in name.lower()


@rule
def tests_never_replace_our_code(root: Path) -> list[str]:
    """Tests use no mock and replace no attribute: such tests repeat the code and miss its faults.

    Mend: use the shipped fake (dummy driver, standalone network, inventory), or go through the user's door.
    """
    found = []
    for name, tree in python(root, "tests"):
        for line, module in imports(tree):
            if is_within(module, {"mock", "pytest_mock", "unittest.mock"}):
                found.append(f"{name}:{line}: imports {module}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "setattr" and "monkeypatch" in dotted(node.value):
                found.append(f"{name}:{node.lineno}: replaces an attribute")
    return found
