# SPDX-License-Identifier: Apache-2.0
"""The two versions of the data processing API, as its marks name them, and the documents that announce them.

Each has a door of its own; one table of routes serves both. In marks 1.1 is the first and 2.0 the one after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from abaca import errors
from abaca.http.openapi import Described

V1, V2 = "1.1", "1.2"
FIRST, SECOND = 1, 2
SERVICE = "data-processing"
HEADER = "openstack-api-version"
VARY = "OpenStack-API-Version"
ROOT = "/data-processing"
# What went wrong; who is not known is told so in Keystone's form.
FAULT: dict[str, object] = {
    "type": "object",
    "properties": {
        "error_code": {"type": "integer"},
        "error_name": {"type": "string"},
        "error_message": {"type": "string"},
        "error": {"type": "object"},
    },
}
_SENTENCES = ("", "The first version served.", "The newest version.")
DESCRIBED = {
    FIRST: Described("Abaca: clusters by 1.1", f"{ROOT}/v1.1", None, "1.1", _SENTENCES, (FAULT,)),
    SECOND: Described("Abaca: clusters by 2.0", f"{ROOT}/v2", None, "2.0", _SENTENCES, (FAULT,)),
}


def check(environ: Mapping[str, object]) -> None:
    """Raises Invalid, or NotAcceptable, for a header that asks the second door for another version than its own."""
    for part in str(environ.get("HTTP_OPENSTACK_API_VERSION", "")).split(","):
        words = part.split()
        if not words or words[0].lower() != SERVICE:
            continue
        asked = " ".join(words[1:])
        major, dot, minor = asked.partition(".")
        if asked.lower() == "latest" or asked == "2.0":
            return
        if not (asked.isascii() and dot and major.isdigit() and minor.isdigit()):
            raise errors.Invalid(f"The API version {asked[:32]!r} is not of the form MAJOR.MINOR, such as 2.0.")
        raise errors.NotAcceptable(version=asked[:32], minimum="2.0", maximum="2.0")


def document(base: str) -> dict[str, object]:
    """What GET /data-processing answers; `base` is the address of the service without a path."""

    def link(path: str) -> list[dict[str, str]]:
        return [{"rel": "self", "href": f"{base}{ROOT}/{path}/"}]

    return {
        "versions": [
            {"id": "v1.1", "status": "SUPPORTED", "links": link("v1.1")},
            {"id": "v2", "status": "CURRENT", "links": link("v2"), "min_version": "2.0", "max_version": "2.0"},
        ]
    }
