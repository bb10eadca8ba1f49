# SPDX-License-Identifier: Apache-2.0
"""The API described for machines: one OpenAPI document for each microversion."""

from __future__ import annotations

from typing import Any

from abaca import errors, policy
from abaca.api import versions
from abaca.api.compute import versions as compute_versions
from abaca.http import openapi
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain

SHOW = policy.anyone("openapi:show", "Read the description of the API.")
RESOURCE: Resource = Resource("API description", "/openapi")


@RESOURCE.get("/{number}", policy=SHOW, view=Plain(None, dict[str, Any]))
def show(call: Call, number: str) -> dict[str, Any]:
    """The OpenAPI document of a microversion."""
    try:
        version = versions.negotiate(number)
    except (errors.Invalid, errors.NotAcceptable):
        raise errors.NotFound(resource="Microversion", id=number) from None
    described = call.parts.doors[0].table
    return openapi.document(described, version)


@RESOURCE.get("/compute/{number}", policy=SHOW, view=Plain(None, dict[str, Any]))
def show_compute(call: Call, number: str) -> dict[str, Any]:
    """The same of the compute door."""
    try:
        version = compute_versions.negotiate(number)
    except (errors.Invalid, errors.NotAcceptable):
        raise errors.NotFound(resource="Microversion", id=number) from None
    url = openapi.COMPUTE.url
    described = next(door.table for door in call.parts.doors if door.prefix == url)
    return openapi.document(described, version, openapi.COMPUTE)
