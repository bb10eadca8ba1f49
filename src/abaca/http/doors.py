# SPDX-License-Identifier: Apache-2.0
"""The doors of the application: sets of routes, each below a prefix and with versions of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import abaca
from abaca import errors
from abaca.api import versions
from abaca.api.compute import versions as compute_versions
from abaca.http import paging, routing

if TYPE_CHECKING:
    from abaca.http.pipeline import Call


@dataclass(frozen=True)
class Door:
    """`negotiate` sets the version of a call and says so in the answer's headers; `document` gives what the prefix
    itself answers, by the address of the service. With `names_projects` paths may begin with the caller's project.
    `public` holds documents for which nobody need be known, by their whole path. `greet` says in the headers what every
    answer of this door says, refusals included.
    """

    prefix: str
    table: routing.Table
    negotiate: Callable[[Call], None]
    document: Callable[[str], Any]
    names_projects: bool = False
    public: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    greet: Callable[[Call], None] = lambda _call: None

    def holds(self, path: str) -> bool:
        """Whether a path is behind this door."""
        return path.startswith(self.prefix) and path[len(self.prefix) : len(self.prefix) + 1] in ("", "/")


def shared_file_systems(resources: Iterable[routing.Resource]) -> Door:
    """/v2: what OpenStack's clients of shared file systems know, in all its microversions."""
    return Door("/v2", routing.Table(resources), _negotiate_microversion, versions.document, names_projects=True)


def own(resources: Iterable[routing.Resource]) -> Door:
    """/abaca/v1: what is Abaca's own. It has one version."""

    def document(base: str) -> dict[str, str]:
        return {"name": "Abaca", "release": abaca.__version__, "href": f"{base}/abaca/v1/"}

    return Door("/abaca/v1", routing.Table(resources), lambda _call: None, document)


def compute(resources: Iterable[routing.Resource]) -> Door:
    """/compute/v2.1: what OpenStack's clients of compute need of servers, in Nova's microversions."""
    document, every = compute_versions.document, compute_versions.every
    return Door(
        "/compute/v2.1",
        routing.Table(resources),
        _negotiate_compute,
        document,
        names_projects=True,
        public={"/compute": every, "/compute/": every, "/compute/v2.1": document, "/compute/v2.1/": document},
        greet=_name_compute_request,
    )


def _name_compute_request(call: Call) -> None:
    call.response.set_header("x-compute-request-id", call.request_id)


def _negotiate_compute(call: Call) -> None:
    asked = compute_versions.asked_for(call.request.env)
    try:
        call.version = compute_versions.negotiate(asked)
    except errors.NotAcceptable:
        _echo_compute(call, str(asked))
        raise
    _echo_compute(call, f"2.{call.version}")


def _echo_compute(call: Call, version: str) -> None:
    call.response.set_header(compute_versions.HEADER, f"{compute_versions.SERVICE} {version}")
    call.response.set_header(compute_versions.FORMER_HEADER, version)
    call.response.set_header("vary", compute_versions.VARY)


def _negotiate_microversion(call: Call) -> None:
    environ, response = call.request.env, call.response
    response.set_header("x-compute-request-id", call.request_id)
    asked = environ.get("HTTP_X_OPENSTACK_MANILA_API_VERSION")
    try:
        call.version = versions.negotiate(asked)
    except errors.NotAcceptable:
        _echo(call, str(asked))
        raise
    _echo(call, asked or versions.VERSIONS[versions.MINIMUM][0])
    said = environ.get("HTTP_X_OPENSTACK_MANILA_API_EXPERIMENTAL")
    if said is not None and said.strip().lower() in paging.TRUE:
        call.experimental = True
        response.set_header(versions.EXPERIMENTAL_HEADER, "True")


def _echo(call: Call, version: str) -> None:
    call.response.set_header(versions.VERSION_HEADER, version)
    call.response.set_header("vary", "X-OpenStack-Manila-API-Version")
