# SPDX-License-Identifier: Apache-2.0
"""The doors of the application, and how each reads the version that a request asks for."""

from __future__ import annotations

import falcon

from abaca import errors
from abaca.api import descriptions, own_door, routes, unserved, versions
from abaca.api.compute import versions as compute_versions
from abaca.api.data_processing import faults as data_faults
from abaca.api.data_processing import versions as data_versions
from abaca.http.doors import Asked, Door
from abaca.http.paging import TRUE
from abaca.http.routing import Table


def every() -> tuple[Door, ...]:
    """All of them; the document of the first is also that of the whole service."""
    shares, servers, clusters = shared_file_systems(), compute(), data_processing()
    return shares, own(shares.table, servers.table, clusters[0].table), servers, *clusters


def shared_file_systems() -> Door:
    """/v2: what OpenStack's clients of shared file systems know, in all its microversions."""
    table = Table(routes.RESOURCES)
    return Door(
        "/v2",
        table,
        _negotiate_microversion,
        versions.document,
        names_projects=True,
        unserved=unserved.of_shared_file_systems,
        unserved_actions={name: unserved.here(what) for name, what in unserved.ACTIONS.items()},
    )


def own(shares: Table, servers: Table, clusters: Table) -> Door:
    """/abaca/v1: what is Abaca's own, in one version; and the descriptions of all doors."""
    table = Table(routes.OWN)
    described = (
        descriptions.Series(table, descriptions.OWN, own_door.INDEX, 0, 0),
        descriptions.Series(shares, versions.DESCRIBED, f"{own_door.INDEX}/", versions.MINIMUM, versions.MAXIMUM),
        descriptions.Series(
            servers,
            compute_versions.DESCRIBED,
            f"{own_door.INDEX}/compute/",
            compute_versions.MINIMUM,
            compute_versions.MAXIMUM,
        ),
        *(
            descriptions.Series(clusters, of, f"{own_door.INDEX}{of.url}", version, version)
            for version, of in data_versions.DESCRIBED.items()
        ),
    )
    return own_door.door(table, descriptions.public(described))


def compute() -> Door:
    """/compute/v2.1: what OpenStack's clients of compute need of servers, in Nova's microversions."""
    document, every = compute_versions.document, compute_versions.every
    return Door(
        "/compute/v2.1",
        Table(routes.COMPUTE),
        _negotiate_compute,
        document,
        names_projects=True,
        public={"/compute": every, "/compute/": every, "/compute/v2.1": document, "/compute/v2.1/": document},
        greet=_name_request,
        unserved=unserved.of_compute,
    )


def data_processing() -> tuple[Door, Door]:
    """/data-processing/v1.1 and /data-processing/v2: what clients of data processing need of clusters."""
    table = Table(routes.DATA_PROCESSING)
    document, root = data_versions.document, data_versions.ROOT
    return (
        Door(
            f"{root}/v1.1",
            table,
            lambda _request, _response: Asked(data_versions.FIRST),
            document,
            names_projects=True,
            public={root: document, f"{root}/": document},
            fault=data_faults.fault,
            unserved=unserved.of_data_processing,
        ),
        Door(
            f"{root}/v2",
            table,
            _negotiate_data_processing,
            document,
            names_projects=True,
            greet=_name_data_processing,
            fault=data_faults.fault,
            unserved=unserved.of_data_processing,
        ),
    )


def _negotiate_data_processing(request: falcon.Request, _response: falcon.Response) -> Asked:
    data_versions.check(request.env)
    return Asked(data_versions.SECOND)


def _name_data_processing(response: falcon.Response) -> None:
    response.set_header(data_versions.HEADER, f"{data_versions.SERVICE} 2.0")
    response.set_header("vary", data_versions.VARY)


def _name_request(response: falcon.Response) -> None:
    response.set_header("x-compute-request-id", response.get_header("x-openstack-request-id", ""))


def _negotiate_compute(request: falcon.Request, response: falcon.Response) -> Asked:
    asked = compute_versions.asked_for(request.env)
    try:
        version = compute_versions.negotiate(asked)
    except errors.NotAcceptable:
        _echo_compute(response, str(asked))
        raise
    _echo_compute(response, f"2.{version}")
    return Asked(version)


def _echo_compute(response: falcon.Response, version: str) -> None:
    response.set_header(compute_versions.HEADER, f"{compute_versions.SERVICE} {version}")
    response.set_header(compute_versions.FORMER_HEADER, version)
    response.set_header("vary", compute_versions.VARY)


def _negotiate_microversion(request: falcon.Request, response: falcon.Response) -> Asked:
    _name_request(response)
    asked = request.env.get("HTTP_X_OPENSTACK_MANILA_API_VERSION")
    try:
        version = versions.negotiate(asked)
    except errors.NotAcceptable:
        _echo(response, str(asked))
        raise
    _echo(response, asked or versions.VERSIONS[versions.MINIMUM][0])
    said = request.env.get("HTTP_X_OPENSTACK_MANILA_API_EXPERIMENTAL")
    if said is None or said.strip().lower() not in TRUE:
        return Asked(version)
    response.set_header(versions.EXPERIMENTAL_HEADER, "True")
    return Asked(version, experimental=True)


def _echo(response: falcon.Response, version: str) -> None:
    response.set_header(versions.VERSION_HEADER, version)
    response.set_header("vary", "X-OpenStack-Manila-API-Version")
