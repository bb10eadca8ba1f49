# SPDX-License-Identifier: Apache-2.0
"""The house rules about what stands around the code: the lock, the Makefile, documents, licences."""

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from tests.house_rules import files, imports, is_within, python, rule


@rule
def every_file_names_its_licence(root: Path) -> list[str]:
    """Every source file begins with `# SPDX-License-Identifier: Apache-2.0`, below `#!` where there is one.

    Mend: put that line at the top.
    """
    sources = files(root, "*.py", "*.sh", "Makefile", ".ci/run", "pyproject.toml")
    return [
        f"{path.relative_to(root)}: no licence line"
        for path in sources
        if "# SPDX-License-Identifier: Apache-2.0" not in path.read_text().splitlines()[:2]
    ]


@rule
def the_lock_names_no_address(root: Path) -> list[str]:
    """requirements/*.txt pin and hash every package and name no download address; no other lock file exists.

    Mend: `make lock`; delete uv.lock, poetry.lock and their like.
    """
    found = [
        f"{path.relative_to(root)}: a lock with addresses" for path in files(root, "uv.lock", "p*.lock", "pylock*")
    ]
    for path in files(root, "requirements/*.txt"):
        name, text = path.relative_to(root), path.read_text()
        found += [f"{name}: holds an address" for _ in re.findall(r"://|--(?:extra-)?index-url|--find-links", text)[:1]]
        pins = re.findall(r"^[a-z0-9][^\n]*(?:\n +--hash[^\n]*)*", text, re.MULTILINE)
        found += [f"{name}: {pin.split()[0]} has no version or no hash" for pin in pins if not pinned(pin)]
    return found


def pinned(requirement: str) -> bool:
    """Whether a requirement of a lock names one version and a hash."""
    return "==" in requirement.split(maxsplit=1)[0] and "--hash=sha256:" in requirement


@rule
def what_is_imported_is_declared(root: Path) -> list[str]:
    """Every package that src/abaca imports is a dependency or an extra in pyproject.toml.

    Mend: add it with a lower bound, then `make lock`.
    """
    stated = stated_dependencies(root)
    declared = {name for key, names in stated.items() if key == "" or key.startswith("[") for name in names}
    return [
        f"{name}:{line}: imports {module}"
        for name, tree in python(root, "src/abaca")
        for line, module in imports(tree)
        if not is_within(module, {"abaca", *sys.stdlib_module_names})
        and not declared & {normal(owner) for owner in owned().get(module.partition(".")[0], [module])}
    ]


@rule
def the_lock_holds_what_is_declared(root: Path) -> list[str]:
    """requirements/run.txt pins every dependency of pyproject.toml, dev.txt those of the groups too.

    Mend: `make lock`.
    """
    stated = stated_dependencies(root)
    run = stated.pop("", [])
    dev = [*run, *stated.get("test", ()), *stated.get("check", ()), *stated.get("build", ())]
    found = []
    for lock, wanted in (("run.txt", run), ("dev.txt", dev)):
        path = root / "requirements" / lock
        locked = {
            normal(name) for name in re.findall(r"^([\w.-]+)", path.read_text() if path.exists() else "", re.MULTILINE)
        }
        found += [f"requirements/{lock}: {name} is missing" for name in wanted if name not in locked]
    return found


def stated_dependencies(root: Path) -> dict[str, list[str]]:
    """The names in pyproject.toml: of the dependencies under "", of extras under "[name]", of groups under "name"."""
    path = root / "pyproject.toml"
    stated = tomllib.loads(path.read_text()) if path.exists() else {}
    project = stated.get("project", {})
    lists = {"": project.get("dependencies", [])}
    lists |= {f"[{name}]": wanted for name, wanted in project.get("optional-dependencies", {}).items()}
    lists |= stated.get("dependency-groups", {})
    return {name: [normal(re.split(r"[^\w.-]", one)[0]) for one in wanted] for name, wanted in lists.items()}


def normal(distribution: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@cache
def owned() -> Mapping[str, list[str]]:
    """Which distributions bring a top-level module, in this environment."""
    return metadata.packages_distributions()


@rule
def every_command_is_documented(root: Path) -> list[str]:
    """Every Makefile target says what it does after `##`, and every `make x` in our documents exists.

    Mend: add `## What the person gets` to the target's line, or correct the document.
    """
    text = (root / "Makefile").read_text() if (root / "Makefile").exists() else ""
    rules = re.findall(r"^([a-z][a-z-]*):(?!=)(.*)$", text, re.MULTILINE)
    targets = {target for target, _ in rules}
    found = [f"Makefile: {target} is not documented" for target, rest in rules if "## " not in rest]
    for path in files(root, "*.md"):
        for command in re.findall(
            r"`make ([a-z][a-z-]*)|^ *(?:\$ )?make ([a-z][a-z-]*)", path.read_text(), re.MULTILINE
        ):
            named = command[0] or command[1]
            found += [f"{path.relative_to(root)}: there is no make {named}"] if named not in targets else []
    return found


@rule
def the_documents_link_to_what_exists(root: Path) -> list[str]:
    """Every relative link in a document leads to a file.

    Mend: correct the path; it is relative to the document's own folder.
    """
    found = []
    for path in files(root, "*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
            if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
                found.append(f"{path.relative_to(root)}: {target} does not exist")
    return found


@rule
def the_repository_names_no_machine(root: Path) -> list[str]:
    """No file names a folder of the machine it was written on, or the host of a package registry.

    Mend: use a path below the repository, the state folder or a temporary folder; let pip and apt know their hosts.
    """
    # In brackets, lest this line be found itself.
    foreign = re.compile(r"(?<![\w.])/wor[k]/|pypi[.]or[g]|pythonhosted[.]or[g]|deb[.]debian[.]or[g]|/tmp/abac[a]/")
    found = []
    for path in files(root, "*"):
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(root)}:{n}: {line.strip()[:80]}"
            for n, line in enumerate(lines, 1)
            if foreign.search(line)
        ]
    return found
