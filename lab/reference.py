# SPDX-License-Identifier: Apache-2.0
"""The generated pages of docs/reference, each from the code that it describes; `make docs` writes them.

Each function gives the text of one page. tests/test_docs.py compares them, so a page cannot fall behind the code.
"""

import contextlib
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

import abaca.domain
import abaca.drivers
from abaca import errors, policy
from abaca.api import routes
from abaca.api.data_processing import versions as data_versions
from abaca.api.versions import VERSIONS
from abaca.cli import main
from abaca.compute import contract as compute_contract
from abaca.domain import state_machine
from abaca.domain.attachments import attachments
from abaca.drivers import contract, load
from abaca.drivers.contract import promises
from abaca.http import routing, wire
from abaca.nodes import contract as nodes
from abaca.operations.attachments import attachment_parts as tools
from abaca.settings import reading, tree
from lab.compatibility import served as served_versions

MADE = "<!-- Made by `make docs` from the code; do not edit. -->\n"


def settings() -> str:
    """Every option of the configuration file, section by section."""
    sections = {"DEFAULT": tree.Settings}
    for info in msgspec.structs.fields(tree.Settings):
        if (cls := reading.section_class(info)) is not None:
            sections[info.name] = cls
    parts = [MADE, "# Settings\n", "INI files in oslo.config's dialect; see `abaca config` for the values in force.\n"]
    several = {"webhook_<name>": tree.Webhook, "subnet_<name>": tree.DeclaredSubnet, "<back end>": tree.Backend}
    for name, cls in {**sections, **several}.items():
        parts += [f"## [{name}]\n", f"{paragraph(cls)}\n", options(cls)]
    authtoken = next(info for info in msgspec.structs.fields(tree.Settings) if info.name == "keystone_authtoken")
    parts += ["## [keystone_authtoken]\n", f"{reading.meta(authtoken).description}\n"]
    return "\n".join(parts)


def options(cls: type) -> str:
    """The table of a section's options."""
    lines = ["| option | values | default | |", "|---|---|---|---|"]
    for info in msgspec.structs.fields(cls):
        if info.encode_name in reading.option_names(cls):
            words = (f"`{info.encode_name}`", values(info.type), default(info), reading.meta(info).description or "")
            lines.append("| " + " | ".join(word.replace("|", "\\|") for word in words) + " |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No options.\n"


def values(kind: Any) -> str:
    """What an option takes, in words."""
    bounds = ""
    while typing.get_origin(kind) is typing.Annotated:
        metas = [meta for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta)]
        bounds += "".join(f", at least {meta.ge}" for meta in metas if meta.ge is not None)
        bounds += "".join(f", at most {meta.le}" for meta in metas if meta.le is not None)
        kind = kind.__origin__
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return values(next(one for one in typing.get_args(kind) if one is not type(None))) + bounds
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{one}`" for one in typing.get_args(kind))
    names = {bool: "true or false", int: "number", float: "number", str: "text", Path: "path"}
    return names.get(kind, "list with commas" if typing.get_origin(kind) is tuple else "`name:value` list") + bounds


def default(info: msgspec.structs.FieldInfo) -> str:
    """The default as it would stand in a file."""
    value = info.default
    if value is msgspec.NODEFAULT or value is None:
        return ""
    if isinstance(value, tuple):
        value = ", ".join(str(one) for one in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if str(value) else ""


def states() -> str:
    """Every state machine: a diagram, and its rows."""
    parts = [MADE, "# States\n", "`none` is a thing that does not exist yet, `gone` one that does no longer.\n"]
    for name, module in every_module(abaca.domain):
        for found in vars(module).values():
            if isinstance(found, state_machine.StateMachine):
                rows = [f"    {at} --> {to}: {event}" for at, event, to in found.rows]
                busy = ", ".join(f"`{state}`" for state in sorted(found.busy)) or "none"
                parts += [f"## {found.name}\n", f"From `domain/{name.replace('.', '/')}.py`."]
                parts[-1] += f" Busy, so an operation is at work: {busy}.\n"
                if found.resettable:
                    parts.append(f"An operator may set: {', '.join(f'`{state}`' for state in found.resettable)}.\n")
                parts += ["```mermaid", "stateDiagram-v2", *rows, "```\n"] if rows else []
    return "\n".join(parts)


def error_codes() -> str:
    """Every error: its code, the HTTP status and the message."""
    lines = [MADE, "# Errors\n", "The code of an error never changes; its text may.\n"]
    lines += ["| code | HTTP status | message |", "|---|---|---|"]
    raised = (*classes(errors), *classes(contract), *classes(compute_contract), *classes(nodes), *classes(tools))
    rows = {(cls.status, cls.code, paragraph(cls)) for cls in raised if issubclass(cls, errors.AbacaError)}
    lines += [f"| `{code}` | {status} | {text} |" for status, code, text in sorted(rows)]
    lines += ["\n## Attachments in error\n", "| code | what helps |", "|---|---|"]
    lines += [f"| `{code}` | {said} |" for code, said in sorted(attachments.MENDS.items())]
    return "\n".join(lines) + "\n"


def drivers() -> str:
    """Every storage driver: what it can do, and its own options."""
    found = dict(storage_drivers())
    capabilities = [cls for cls in promises.every() if cls is not contract.Driver]
    parts = [MADE, "# Storage drivers\n", "| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    for capability in sorted(capabilities, key=lambda cls: cls.__name__):
        ticks = ("yes" if issubclass(driver, capability) else "" for driver in found.values())
        parts.append(f"| {paragraph(capability).rstrip('.')} | {' | '.join(ticks)} |")
    parts.append("")
    for name, driver in found.items():
        protocols = ", ".join(driver.protocols)
        parts += [f"## {name}\n", f"{paragraph(driver)} Protocols: {protocols}.\n", options(driver.Options)]
    return "\n".join(parts)


def api_routes() -> str:
    """Every call of every door: its versions and the rule that guards it."""
    parts = [MADE, "# Calls\n", "What each rule allows: [policy](policy.md).\n"]
    for resource in sorted(routes.RESOURCES, key=lambda one: one.name):
        parts += _routes_of(resource, "/v2")
    for resource in sorted(routes.COMPUTE, key=lambda one: one.name):
        parts += _routes_of(resource, "/compute/v2.1")
    for version, of in data_versions.DESCRIBED.items():
        for resource in sorted(routes.DATA_PROCESSING, key=lambda one: one.name):
            parts += _routes_of(resource, of.url, only=version)
    for resource in sorted(routes.OWN, key=lambda one: one.name):
        parts += _routes_of(resource, "/abaca/v1", has_versions=False)
    return "\n".join(parts)


def _routes_of(
    resource: routing.Resource, prefix: str, *, has_versions: bool = True, only: int | None = None
) -> Iterator[str]:
    has_versions = has_versions and only is None
    yield f"## {resource.name.replace('_', ' ').capitalize()}, below `{prefix}`\n"
    yield "| call | versions | rule |\n|---|---|---|" if has_versions else "| call | rule |\n|---|---|"
    for route in resource.routes:
        if only is not None and not route.serves(only, experimental=True):
            continue
        known = f" {versions(route)} |" if has_versions else ""
        yield f"| `{route.name}` |{known} `{route.policy.name}` |"
    yield ""


def versions(route: Any) -> str:
    """The microversions that serve a route, in words."""
    text = f"2.{route.since}" + (
        "" if route.until == route.since else " on" if route.until >= wire.NEVER else f" to 2.{route.until}"
    )
    if route.experimental:
        first, last = route.experimental
        text += f", experimental from 2.{first} on" if last >= wire.NEVER else f", experimental to 2.{last}"
    return text


def policy_rules() -> str:
    """Every rule that an operator may change in policy.yaml, with its default."""
    tables = [
        routing.Table(resources) for resources in (routes.RESOURCES, routes.COMPUTE, routes.DATA_PROCESSING, routes.OWN)
    ]
    lines = [
        MADE,
        "# Policy\n",
        "Rules that `policy.yaml` may override, with their defaults; an empty default allows everybody.\n",
    ]
    lines += ["| rule | default | |", "|---|---|---|"]
    rules = {rule.name: rule for rule in (*policy.BASE_RULES, *(rule for table in tables for rule in table.rules))}
    lines += [f"| `{rule.name}` | `{rule.check}` | {rule.description} |" for _, rule in sorted(rules.items())]
    return "\n".join(lines).replace("``", "") + "\n"


def commands() -> str:
    """What every command says when it is asked for help."""
    parts = [MADE, "# Commands\n"]
    for context in below("abaca", main.cli):
        text = context.command.get_help(context).rstrip()
        parts += [f"## {context.command_path}\n", f"```text\n{text}\n```\n"]
    return "\n".join(parts)


def below(name: str, command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """The context of a command and of all below it, as if each had been called."""
    settings: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100} | command.context_settings
    context = click.Context(command, parent, name, **settings)
    yield context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            if (child := command.get_command(context, word)) is not None:
                yield from below(word, child, context)


def storage_drivers() -> Iterator[tuple[str, type[contract.Driver]]]:
    """Name and class of each storage driver shipped."""
    for name, _ in modules(abaca.drivers):
        with contextlib.suppress(errors.ConfigError):
            yield name, load.driver_class(name)


def modules(package: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Name and module of each direct child of a package."""
    for info in pkgutil.iter_modules(package.__path__):
        yield info.name, importlib.import_module(f"{package.__name__}.{info.name}")


def every_module(package: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Name and module of everything below a package."""
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield info.name.removeprefix(f"{package.__name__}."), importlib.import_module(info.name)


def classes(module: types.ModuleType) -> list[Any]:
    """The classes that a module defines itself, or a package in its modules."""
    found = (cls for cls in vars(module).values() if inspect.isclass(cls))
    return [cls for cls in found if load.is_within(cls.__module__, module.__name__)]


def paragraph(cls: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def compatibility() -> str:
    """What each microversion brought, and whether it is served."""
    lines = [
        MADE,
        "# Compatibility\n",
        "The shared file system API of OpenStack, version by version. A version that is not served yet can be asked",
        "for; what it brought is answered as if it did not exist.\n",
        "| version | | served |",
        "|---|---|---|",
    ]
    served = served_versions()
    lines += [f"| {number} | {sentence} | {served[number]} |" for number, sentence in VERSIONS]
    return "\n".join(lines) + "\n"


PAGES = {
    "docs/reference/settings.md": settings,
    "docs/reference/states.md": states,
    "docs/reference/errors.md": error_codes,
    "docs/reference/commands.md": commands,
    "docs/reference/drivers.md": drivers,
    "docs/reference/routes.md": api_routes,
    "docs/reference/policy.md": policy_rules,
    "docs/reference/compatibility.md": compatibility,
}
