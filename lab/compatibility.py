# SPDX-License-Identifier: Apache-2.0
"""What is served of what each microversion brought, found out from the description of the API and from its tests.

compatibility.yaml says what that is. Nobody writes down that something is served: it is, or it is not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from abaca.api import routes, versions
from abaca.http import openapi, routing

ROOT = Path(__file__).resolve().parent.parent
BROUGHT = Path(__file__).with_name("compatibility.yaml")
TESTED = "tested: "
# What Manila does not have any more either.
TAKEN_BACK = {"2.4": "no: Manila has taken them back, at every version"}

# What README names as not served yet, as long as that call is not.
LARGE = {
    "snapshots": "GET /snapshots",
    "share networks": "GET /share-networks",
    "security services": "GET /security-services",
    "share servers": "GET /share-servers",
    "share groups": "POST /share-groups",
    "replicas": "POST /share-replicas",
    "migration": "POST /shares/{id}/action < migration_start",
    "taking shares under management": "POST /shares/manage",
    "transfers": "GET /share-transfers",
    "backups": "POST /share-backups",
    "types of quality of service": "POST /qos-types",
}

Schema = Mapping[str, Any]


@functools.cache
def facts(version: int) -> frozenset[str]:
    """One line for each thing that can be asked, sent or answered at 2.`version`."""
    return frozenset(_facts(version))


def _facts(version: int) -> Iterator[str]:
    document = openapi.document(routing.Table(routes.RESOURCES), version, versions.DESCRIBED)
    for name, schema in document["components"]["schemas"].items():
        if name != "Fault":
            for field, kind in schema["properties"].items():
                needed = "" if field in schema.get("required", ()) else "?"
                yield f"{name}.{field}{needed}: {kind_of(kind)}"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield from _call(f"{method.upper()} {path}", operation)


def _call(call: str, operation: Schema) -> Iterator[str]:
    experimental = any(p["name"].endswith("Experimental") for p in operation["parameters"])
    yield f"{call} {operation['x-policy']}" + (" (experimental)" if experimental else "")
    for parameter in operation["parameters"]:
        if parameter["name"] == "limit":
            yield f"{call} ?paging"
        elif parameter["in"] == "query" and parameter["name"] not in dict(openapi.PAGING):
            yield f"{call} ?{parameter['name']}: {kind_of(parameter['schema'])}"
    for status, answer in operation["responses"].items():
        for content in answer.get("content", {}).values() if status.startswith("2") else ():
            yield f"{call} {status}: {kind_of(content['schema'])}"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    yield from (f"{call} <{fact}" for fact in _sent(body))


def _sent(schema: Schema, path: str = "") -> Iterator[str]:
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    for choice in choices:
        for field, kind in choice.get("properties", {}).items():
            needed = "" if field in choice.get("required", ()) else "?"
            yield f"{path} {field}{needed}: {kind_of(kind)}"
            yield from _sent(kind, f"{path} {field}")


def kind_of(schema: Schema) -> str:
    """A type, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(sorted({kind_of(one) for one in schema[several]}))
    if "enum" in schema:
        return "|".join(str(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"[{kind_of(schema.get('items', {}))}]"
    if schema.get("type") == "object" and "properties" in schema:
        return "{" + ", ".join(f"{name}: {kind_of(kind)}" for name, kind in sorted(schema["properties"].items())) + "}"
    return str(schema.get("type", "anything"))


def brought() -> dict[str, dict[str, list[str]]]:
    """By version, what it brought and what must be there for each part of that."""
    return dict(yaml.safe_load(BROUGHT.read_text()))


def served() -> dict[str, str]:
    """By version: `yes`, `not yet`, `partly` and without what, or `no`."""
    there: set[str] = set()
    parts, found = brought(), {}
    for number, (name, _) in reversed(list(enumerate(versions.VERSIONS))):
        there |= {_plain(fact) for fact in facts(number)}
        how = how_served(parts[name], there)
        found[name] = TAKEN_BACK.get(name, how) if how == "not yet" else how
    return found


def how_served(parts: Mapping[str, list[str]], there: Collection[str]) -> str:
    """Whether all parts of something are there, some or none; a part is there when all that it needs is."""
    missing = [part for part, needs in parts.items() if not all(_is_there(need, there) for need in needs)]
    if not missing:
        return "yes"
    return f"partly, without {listed(missing)}" if len(missing) < len(parts) else "not yet"


def not_yet() -> str:
    """What README says of large things that are missing; empty when there are none."""
    there = {_plain(fact) for fact in facts(versions.MAXIMUM)}
    missing = [name for name, call in LARGE.items() if not _is_there(call, there)]
    return f"Not served yet: {listed(missing)}." if missing else ""


def listed(names: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _plain(fact: str) -> str:
    """Without the kinds of values and the names of what stands in paths."""
    head = re.split(r"\??: ", fact, maxsplit=1)[0]
    return re.sub(r"{\w+}", "{}", head)


def _is_there(need: str, there: Collection[str]) -> bool:
    if need.startswith(TESTED):
        file, _, name = need.removeprefix(TESTED).partition(": ")
        return is_tested(ROOT / file, name)
    plain = re.sub(r"{\w+}", "{}", need)
    is_call = re.fullmatch(r"[A-Z]+ \S+", plain) is not None
    return any(fact.startswith(f"{plain} ") for fact in there) if is_call else plain in there


def is_tested(file: Path, name: str) -> bool:
    """Whether a file of requests has a test of that name."""
    requests = yaml.safe_load(file.read_text())["requests"] if file.exists() else []
    return any(one["name"] == name for one in requests)
