# SPDX-License-Identifier: Apache-2.0
"""The API described for machines: one OpenAPI document for each microversion.

GET /abaca/v1/openapi/2.99.json serves one of shared file systems, GET /abaca/v1/openapi/compute/2.97.json one of
compute; `python -m abaca.api 2.99` writes one without a service.
"""

from __future__ import annotations

from collections.abc import Callable
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
    return _document(call, number, versions.negotiate, versions.DESCRIBED)


@RESOURCE.get("/compute/{number}", policy=SHOW, view=Plain(None, dict[str, Any]))
def show_compute(call: Call, number: str) -> dict[str, Any]:
    """The same of the compute door."""
    return _document(call, number, compute_versions.negotiate, compute_versions.DESCRIBED)


def _document(call: Call, number: str, negotiate: Callable[[str], int], of: openapi.Described) -> dict[str, Any]:
    try:
        version = negotiate(number)
    except (errors.Invalid, errors.NotAcceptable):
        raise errors.NotFound(resource="Microversion", id=number) from None
    table = next(door.table for door in call.parts.doors if door.prefix == of.url)
    return openapi.document(table, version, of)
