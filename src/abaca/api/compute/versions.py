# SPDX-License-Identifier: Apache-2.0
"""The microversions of the compute door, which its marks name, and the documents that announce them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abaca import errors
from abaca.http.openapi import Described

MINIMUM = 1
MAXIMUM = 97
SERVICE = "compute"
HEADER = "openstack-api-version"
FORMER_HEADER = "x-openstack-nova-api-version"
VARY = "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
DESCRIBED = Described("Abaca: servers", "/compute/v2.1", "OpenStack-API-Version", "compute 2.{}")
_FORM = re.compile(r"([1-9]\d{0,8})\.([1-9]\d{0,8}|0)", re.ASCII)


def asked_for(environ: Mapping[str, object]) -> str | None:
    """The version that a request names, in the header for all services or else in Nova's former one."""
    for part in str(environ.get("HTTP_OPENSTACK_API_VERSION", "")).split(","):
        words = part.split()
        if words and words[0].lower() == SERVICE:
            return words[1] if len(words) == 2 else " ".join(words[1:])
    former = environ.get("HTTP_X_OPENSTACK_NOVA_API_VERSION")
    return None if former is None else str(former)


def negotiate(asked: str | None) -> int:
    """The number after "2." that a request is served at. Raises Invalid, or NotAcceptable when it is out of range."""
    if asked is None:
        return MINIMUM
    if asked.lower() == "latest":
        return MAXIMUM
    found = _FORM.fullmatch(asked)
    if found is None:
        raise errors.Invalid(f"The API version {asked[:32]!r} is not of the form MAJOR.MINOR, such as 2.{MAXIMUM}.")
    if found[1] != "2" or not MINIMUM <= int(found[2]) <= MAXIMUM:
        raise errors.NotAcceptable(version=asked[:32], minimum=f"2.{MINIMUM}", maximum=f"2.{MAXIMUM}")
    return int(found[2])


def document(base: str) -> dict[str, object]:
    """What GET /compute/v2.1/ answers; `base` is the address of the service without a path."""
    media = {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
    return {"version": {**_version(base), "media-types": [media]}}


def every(base: str) -> dict[str, object]:
    """What GET /compute answers."""
    return {"versions": [_version(base)]}


def _version(base: str) -> dict[str, object]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": f"2.{MAXIMUM}",
        "min_version": f"2.{MINIMUM}",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{base}/compute/v2.1/"}],
    }
