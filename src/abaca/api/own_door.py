# SPDX-License-Identifier: Apache-2.0
"""/abaca/v1: what is Abaca's own, in one version; whole, or as little of it as one command asks for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import abaca
from abaca.http.doors import Asked, Door
from abaca.http.routing import Table

if TYPE_CHECKING:
    from abaca.http.routing import Resource

PREFIX = "/abaca/v1"
# Where the descriptions of all doors begin.
INDEX = f"{PREFIX}/openapi"

# By the first part of a path where its resources are: a command imports those that it asks, and no others.
PLACES: Mapping[str, tuple[str, ...]] = {
    "attachments": ("attachments.attachments:RESOURCE", "attachments.examining:ATTACHMENTS"),
    "backends": ("administration.addresses:RESOURCE", "administration.backends:RESOURCE"),
    "clusters": (
        "clusters.clusters:RESOURCE",
        "clusters.mount_instructions:RESOURCE",
        "clusters.nodes:RESOURCE",
        "clusters.urls:RESOURCE",
    ),
    "event-targets": ("administration.events:TARGET",),
    "events": ("administration.events:RESOURCE",),
    "operations": ("administration.operations:RESOURCE",),
    "orphaned-mounts": ("attachments.orphaned_mounts:RESOURCE",),
    "servers": ("attachments.examining:SERVERS", "attachments.registering:RESOURCE", "attachments.servers:RESOURCE"),
    "services": (
        "administration.ensure_shares:RESOURCE",
        "administration.own_services:RESOURCE",
        "administration.reconcile:RESOURCE",
    ),
    "share-networks": ("networks.own_share_networks:RESOURCE",),
    "share-servers": ("networks.own_share_servers:RESOURCE",),
    "shares": (
        "attachments.mount_instructions:RESOURCE",
        "shares.brief_shares:RESOURCE",
        "shares.export_locations:HISTORY",
    ),
}


def resources(collection: str) -> list[Resource]:
    """What answers below the first part of a path; nothing where there is no such collection."""
    found: list[Resource] = []
    for place in PLACES.get(collection, ()):
        module, _, name = place.partition(":")
        found.append(getattr(importlib.import_module(f"abaca.api.{module}"), name))
    return found


def door(table: Table, public: Mapping[str, Callable[[str], object]] | None = None) -> Door:
    """The door, with these routes, and these pages for everybody."""

    def document(base: str) -> dict[str, str]:
        return {
            "name": "Abaca",
            "release": abaca.__version__,
            "href": f"{base}{PREFIX}/",
            "openapi": f"{base}{INDEX}",
            "docs": f"{base}/docs",
        }

    return Door(PREFIX, table, lambda _request, _response: Asked(), document, public=public or {}, one_error_form=True)
