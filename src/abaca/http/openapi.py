# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document of each microversion, from the same table that serves requests."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from abaca.http import bodies, routing, wire

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"

FAULT: Schema = {
    "description": "What went wrong, under a name that depends on the status.",
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer"},
            "message": {"type": "string"},
            "title": {"type": "string"},
            "retryAfter": {"type": "string"},
        },
    },
}
NO_ROUTE: Schema = {
    "type": "object",
    "required": ["code", "title", "message"],
    "properties": {name: {"type": "string"} for name in ("code", "title", "message")},
}
PAGING: tuple[tuple[str, Schema], ...] = (
    ("limit", {"type": "integer", "minimum": 0}),
    ("offset", {"type": "integer", "minimum": 0}),
    ("marker", {"type": "string"}),
    ("sort_key", {"type": "string"}),
    ("sort_dir", {"enum": ["asc", "desc"]}),
)
LINKS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["rel", "href"],
        "properties": {"rel": {"const": "next"}, "href": {"type": "string"}},
    },
}


# The one form of a door of ours; its refusals of strangers look the same.
ERROR: Schema = {
    "description": "What went wrong.",
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "title", "message"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "integer"},
                "title": {"type": "string"},
                "message": {"type": "string"},
            },
        }
    },
}


@dataclass(frozen=True, eq=False)
class Described:
    """A door as its document introduces it: `header` names the version, written with `form`; None: there is one."""

    title: str
    url: str
    header: str | None
    form: str
    sentences: tuple[str, ...] = ()
    fault: tuple[Schema, ...] = (FAULT, NO_ROUTE)

    def sentence(self, version: int) -> str:
        """What the version brought."""
        return self.sentences[version] if self.sentences else f"Microversion 2.{version}."

    def number(self, version: int) -> str:
        """The version by its name."""
        return f"2.{version}" if self.header is not None else self.form


def document(table: routing.Table, version: int, of: Described) -> Schema:
    """The document of one version: everything that administrators and users can do, experimental parts included."""
    served = [route for route in table.routes if route.serves(version, experimental=True)]
    answers = {route.view for route in served if route.view is not None}
    components = _components({view for answer in answers for view in _views(answer.kind)}, version)
    paths: dict[str, dict[str, Schema]] = {}
    for route in served:
        operations = paths.setdefault(route.path, {})
        method = route.method.lower()
        if route.action and method in operations:
            _add_action(operations[method], route, version)
        else:
            operations[method] = _operation(route, version, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": of.title,
            "version": of.number(version),
            "description": of.sentence(version),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": of.url}],
        "security": [{"token": []}, {"basic": []}],
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": {"Fault": {"anyOf": list(of.fault)}, **components},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _views(kind: Any) -> Iterator[type[wire.View]]:
    """The views that a type is made of, and those that stand in them."""
    for view in wire.declared_in(kind):
        yield view
        for field in wire.fields_of(view):
            yield from _views(field.type)


def _components(views: Iterable[type[wire.View]], version: int) -> dict[str, Schema]:
    """The schema of each view, and of what stands in it, as administrators see it; what may lack is not required."""
    ordered = sorted(views, key=lambda view: (view.__module__, view.__name__))
    structs = [wire.shape(view, version, is_admin=True).struct for view in ordered]
    found: tuple[Any, dict[str, Schema]] = msgspec.json.schema_components(
        structs, schema_hook=_schema_of_anything, ref_template=_REFERENCE
    )
    for view, reference in zip(ordered, found[0], strict=True):
        schema = found[1][reference["$ref"].rpartition("/")[2]]
        hidden = {field.name(version) for field in wire.fields_of(view) if _may_lack(field)}
        schema["required"] = [name for name in schema.get("required", ()) if name not in hidden]
        schema["description"] = inspect.getdoc(view) or ""
    for schema in found[1].values():
        schema["additionalProperties"] = False
    return dict(sorted(found[1].items()))


def _schema_of_anything(kind: type) -> Schema:
    """The schema of `object`: whatever JSON can hold."""
    if kind is object:
        return {"description": "Anything."}
    raise NotImplementedError


def _may_lack(field: wire.Field) -> bool:
    return field.first(wire.AdminOnly) is not None or bodies.UnsetType in typing.get_args(field.type)


def _operation(route: routing.Route, version: int, of: Described) -> Schema:
    said = inspect.getdoc(route.handler) or ""
    operation: Schema = {
        "operationId": re.sub(r"\W+", "_", f"{route.method} {route.path}").strip("_").lower(),
        "tags": [route.resource],
        "summary": said.partition("\n")[0],
        "parameters": [*_path_parameters(route.path), *_headers(route, version, of), *_query(route, version)],
        "responses": _responses(route, version),
        "x-policy": route.policy.name,
    }
    body = _request(route, version)
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _add_action(operation: Schema, route: routing.Route, version: int) -> None:
    """Another action of the same path: its body is one more choice, and so is its answer."""
    content = operation["requestBody"]["content"]["application/json"]
    choices = content["schema"].get("oneOf", [content["schema"]])
    content["schema"] = {"oneOf": [*choices, _request(route, version)]}
    operation["summary"] = "Do one of several things to it."
    for status, answer in _responses(route, version).items():
        known = operation["responses"].setdefault(status, answer)
        if known is not answer and "content" in answer:
            _add_choice(known.setdefault("content", answer["content"]), answer["content"])


def _add_choice(content: Schema, other: Schema) -> None:
    """The body may also be the other one."""
    schema, also = content["application/json"]["schema"], other["application/json"]["schema"]
    choices = schema.get("anyOf", [schema])
    if also not in choices:
        content["application/json"] = {"schema": {"anyOf": [*choices, also]}}


def _path_parameters(path: str) -> Iterator[Schema]:
    for name in re.findall(r"{(\w+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _headers(route: routing.Route, version: int, of: Described) -> Iterator[Schema]:
    if of.header is not None:
        yield {"name": of.header, "in": "header", "required": True, "schema": {"const": of.form.format(version)}}
    if not route.serves(version, experimental=False):
        yield {
            "name": "X-OpenStack-Manila-API-Experimental",
            "in": "header",
            "required": True,
            "schema": {"const": "true"},
        }


def _query(route: routing.Route, version: int) -> Iterator[Schema]:
    known: dict[str, Schema] = {}
    if isinstance(route.view, wire.Many):
        known.update(PAGING)
        if route.view.is_counted(version):
            known["with_count"] = {"type": "boolean"}
    if route.filters is not None:
        known.update({name: schema for name, schema, _ in _fields(route.filters, version)})
    for name, schema in known.items():
        yield {"name": name, "in": "query", "required": False, "schema": schema}


def _responses(route: routing.Route, version: int) -> dict[str, Schema]:
    answer: Schema = {"description": "It is so."}
    schema = _answer(route, version)
    if schema is not None:
        answer["content"] = {"application/json": {"schema": schema}}
    fault = {
        "description": "It is not: see the fault.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}},
    }
    return {str(route.status): answer, "4XX": fault, "503": fault}


def _answer(route: routing.Route, version: int) -> Schema | None:
    view = route.view
    if view is None:
        return None
    shown = wire.resolved(view.kind, version, is_admin=True)
    ((reference,), _) = msgspec.json.schema_components(
        [shown], schema_hook=_schema_of_anything, ref_template=_REFERENCE
    )
    if isinstance(view, wire.Plain):
        return reference if view.key is None else _object({view.key: reference}, [view.key])
    if isinstance(view, wire.One):
        return _object(dict.fromkeys(view.keys, reference), view.keys)
    properties: dict[str, Schema] = {key: {"type": "array", "items": reference} for key in view.keys}
    if view.links:
        properties[view.links] = LINKS
    if view.counted is not None and view.is_counted(version):
        properties["count"] = {"type": "integer"}
        if view.counted.most is not None:
            properties["count_is_limited"] = {"type": "boolean"}
    return _object(properties, view.keys)


def _request(route: routing.Route, version: int) -> Schema | None:
    schema = body_schema(route.body, version) if route.body is not None else None
    if route.action:
        return _object({route.action: schema or {}}, [route.action])
    if schema is None or route.body is None or not route.body.KEYS:
        return schema
    choices = [_object({key: schema}, [key], closed=False) for key in route.body.KEYS]
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def body_schema(body: type[bodies.Body], version: int) -> Schema:
    """What may be sent as `body` at a version."""
    if body is bodies.Anything:
        return {}
    fields = list(_fields(body, version))
    required = [name for name, _, is_required in fields if is_required]
    return _object({name: schema for name, schema, _ in fields}, required, closed=body.REFUSES)


def _fields(declared: type[Any], version: int) -> Iterator[tuple[str, Schema, bool]]:
    """Name on the wire, schema, and whether it is required, of each field that a version knows."""
    for field in bodies.readers(declared, version):
        if field.known:
            yield field.names[0], schema_of(field.type, version), field.required


def schema_of(declared: Any, version: int) -> Schema:
    """The JSON schema of a declared type of a body or filter."""
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        scalar = next((mark for mark in declared.__metadata__ if isinstance(mark, bodies.Scalar)), None)
        return dict(scalar.schema) if scalar else schema_of(parts[0], version)
    if origin in (typing.Union, types.UnionType):
        found = [schema_of(part, version) for part in parts if part not in (type(None), bodies.UnsetType)]
        return {"anyOf": [*found, {"type": "null"}]} if type(None) in parts else found[0]
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": schema_of(parts[0], version)}
    if isinstance(declared, type) and issubclass(declared, bodies.Body):
        return body_schema(declared, version)
    return {} if declared is Any else dict(msgspec.json.schema(declared, schema_hook=_schema_of_anything))


def _object(properties: Mapping[str, Schema], required: Iterable[str], *, closed: bool = True) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if closed:
        schema["additionalProperties"] = False
    needed = list(required)
    return {**schema, "required": needed} if needed else schema
