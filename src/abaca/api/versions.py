# SPDX-License-Identifier: Apache-2.0
"""The microversions of the shared file system API, and the documents that announce them."""

from __future__ import annotations

import re
from typing import Any

from abaca import errors

MINIMUM = 0
MAXIMUM = 99
VERSION_HEADER = "x-openstack-manila-api-version"
EXPERIMENTAL_HEADER = "x-openstack-manila-api-experimental"
_FORM = re.compile(r"[1-9]\d*\.(?:[1-9]\d*|0)")
_KNOWN = {f"2.{number}": number for number in range(MINIMUM, MAXIMUM + 1)}


def negotiate(asked: str | None) -> int:
    """The number after "2." that a request is served at. Raises Invalid, or NotAcceptable when it is out of range."""
    if asked is None:
        return MINIMUM
    known = _KNOWN.get(asked)
    if known is not None:
        return known
    if not _FORM.fullmatch(asked):
        raise errors.Invalid(f"The API version {asked[:32]!r} is not of the form MAJOR.MINOR, such as 2.{MAXIMUM}.")
    raise errors.NotAcceptable(version=asked[:32], minimum=f"2.{MINIMUM}", maximum=f"2.{MAXIMUM}")


def document(base: str) -> dict[str, Any]:
    """What GET / and GET /v2/ answer; `base` is the address of the service without a path."""
    return {
        "versions": [
            {
                "id": "v2.0",
                "status": "CURRENT",
                "version": f"2.{MAXIMUM}",
                "min_version": f"2.{MINIMUM}",
                "updated": "2015-08-27T11:33:21Z",
                "links": [
                    {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
                    {"rel": "self", "href": f"{base}/v2/"},
                ],
                "media-types": [{"base": "application/json", "type": "application/vnd.openstack.share+json;version=1"}],
            }
        ]
    }
