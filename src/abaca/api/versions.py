# SPDX-License-Identifier: Apache-2.0
"""The microversions of the shared file system API, what each brought, and the documents that announce them."""

from __future__ import annotations

import re
from typing import Any

from abaca import errors
from abaca.http.openapi import Described

# To add one: a row at the end, and a mark that names it (`Since`, `Until`, `Was`, `Renamed`, `Feature`, or a route's
# `since`, `until`, `experimental`, `formerly`); then `make golden`. tests/api/test_versions.py keeps both in step.
VERSIONS = (
    ("2.0", "The first version: what the API could do before versions were counted."),
    ("2.1", "A share can be asked for in an availability zone."),
    ("2.2", "Shares say whether they can have snapshots."),
    ("2.3", "Share instances can be looked at."),
    ("2.4", "Consistency groups (taken back in 2.31, in favour of share groups)."),
    ("2.5", "Shares say which step of a migration they are at."),
    ("2.6", "The share_type of a share is an id; its name moves to share_type_name."),
    ("2.7", "The prefix os- goes from paths, actions and fields that were extensions."),
    ("2.8", "A share that is taken under management can be public at once."),
    ("2.9", "Export locations have paths of their own, and leave the share."),
    ("2.10", "Shares and share instances say how far their access rules are applied."),
    ("2.11", "Share replicas (experimental until 2.55)."),
    ("2.12", "Snapshots can be taken under management and released."),
    ("2.13", "Access rules of type cephx."),
    ("2.14", "Export locations say which of them is preferred."),
    ("2.15", "A migration can be called off and completed (experimental)."),
    ("2.16", "Shares say which user made them."),
    ("2.17", "Snapshots say which project and user made them."),
    ("2.18", "Share networks show their gateway."),
    ("2.19", "Snapshot instances can be looked at and reset."),
    ("2.20", "Share networks show their MTU."),
    ("2.21", "Access rules show the key that a back end made for them."),
    ("2.22", "A migration may change the share type; share instances show theirs."),
    ("2.23", "Pools can be listed for a share type."),
    ("2.24", "Whether shares can be made from snapshots is a matter of the share type, apart from snapshots."),
    ("2.25", "Quotas can be shown with what is used of them."),
    ("2.26", "Share networks no longer show nova_net_id."),
    ("2.27", "A share can be taken back to its last snapshot."),
    ("2.28", "Access rules have states of their own and are taken while others are applied."),
    ("2.29", "A migration says what it must keep."),
    ("2.30", "Share instances and replicas say whether their rules are cut down to read-only."),
    ("2.31", "Share groups, their types and snapshots (experimental until 2.54)."),
    ("2.32", "Snapshots can be mounted: access rules and export locations of snapshots."),
    ("2.33", "Access rules show when they were made and changed."),
    ("2.34", "Share groups show their availability zone and how consistent their snapshots are."),
    ("2.35", "Shares and share instances can be found by export location."),
    ("2.36", "Lists can be searched by part of a name or description."),
    ("2.37", "Messages tell users what went wrong behind an answer that had been given."),
    ("2.38", "Access rules for IPv6 addresses."),
    ("2.39", "Quotas for each share type."),
    ("2.40", "Quotas for share groups and their snapshots."),
    ("2.41", "Share types have a description."),
    ("2.42", "Lists of shares can say how many there are in all."),
    ("2.43", "Share types can be listed by extra specs."),
    ("2.44", "Security services know an organisational unit."),
    ("2.45", "Access rules have paths of their own, and metadata; the action access_list goes."),
    ("2.46", "Types say whether they are the default."),
    ("2.47", "Replicas show their own export locations, and the share only those of active ones."),
    ("2.48", "A share type can be bound to availability zones."),
    ("2.49", "Share servers can be taken under management and released, and shares that live on them."),
    ("2.50", "Share types can be changed."),
    ("2.51", "Share networks have subnets in availability zones."),
    ("2.52", "Messages can be listed by time."),
    ("2.53", "Quotas for share replicas."),
    ("2.54", "Shares show how far their making is; creating_from_snapshot is a status."),
    ("2.55", "Share groups are no longer experimental."),
    ("2.56", "Share replicas are no longer experimental."),
    ("2.57", "Share servers can be migrated (experimental)."),
    ("2.58", "Limits show share groups and their snapshots."),
    ("2.59", "The progress of a migration carries what the driver says of it."),
    ("2.60", "The project id may be left out of paths."),
    ("2.61", "Share types can set the smallest and the largest size of a share."),
    ("2.62", "A quota for the size of one share."),
    ("2.63", "Security services can be changed while their share network is in use."),
    ("2.64", "Administrators can extend a share without a look at capacity."),
    ("2.65", "A share can be asked for beside, or away from, other shares."),
    ("2.66", "Share group types can be listed by group specs."),
    ("2.67", "Administrators can name the host of a share or replica."),
    ("2.68", "Keys of metadata can be reserved for administrators."),
    ("2.69", "Shares can be put into a recycle bin and taken out again."),
    ("2.70", "A share network has several subnets in one availability zone."),
    ("2.71", "Share instances show when they were changed."),
    ("2.72", "A replica can be made in another share network."),
    ("2.73", "Snapshots have metadata."),
    ("2.74", "Access rules are taken while a replica is in error."),
    ("2.75", "A promotion can give clients time to finish."),
    ("2.76", "Security services know the default site of an Active Directory."),
    ("2.77", "Shares can be handed over to another project."),
    ("2.78", "Share network subnets have metadata."),
    ("2.79", "Lists of snapshots can say how many there are in all."),
    ("2.80", "Share backups (experimental)."),
    ("2.81", "Resource locks keep shares and access rules from being deleted."),
    ("2.82", "Access rules can be locked and hidden; their lists know more filters."),
    ("2.83", "Services say why they were disabled."),
    ("2.84", "A share's mount point can be given a name."),
    ("2.85", "Backups say of which type they are."),
    ("2.86", "The shares of a back end can be ensured on request."),
    ("2.87", "Export locations have metadata."),
    ("2.88", "The level of an access rule can be changed."),
    ("2.89", "Metadata of share network subnets can reach the driver."),
    ("2.90", "Shares can be encrypted with a key of the user's."),
    ("2.91", "A backup can be restored to another share."),
    ("2.92", "A share that is taken under management can have a named mount point."),
    ("2.93", "Services can be listed by whether they are ensuring shares."),
    ("2.94", "Types of quality of service."),
    ("2.95", "Replicas have metadata."),
    ("2.96", "Share migration is no longer experimental."),
    ("2.97", "Shares can be listed by availability zone."),
    ("2.98", "The progress of a migration has a path of its own."),
    ("2.99", "Snapshots can inherit the access rules of their share."),
)
# Nothing here answers differently at these versions.
WITHOUT_MARK = {
    "2.0": "the first one",
    "2.1": "a zone is taken at every version",
    "2.13": "cephx rules are taken at every version",
    "2.38": "IPv6 addresses are taken at every version",
    "2.48": "types are bound to zones at every version",
    "2.60": "both forms of path are served at every version",
    "2.61": "sizes are bounded at every version",
    "2.67": "administrators name the pool of a share at every version",
    "2.68": "reserved keys are reserved at every version",
}
MINIMUM = 0
MAXIMUM = len(VERSIONS) - 1
VERSION_HEADER = "x-openstack-manila-api-version"
EXPERIMENTAL_HEADER = "x-openstack-manila-api-experimental"
DESCRIBED = Described(
    "Abaca: shared file systems",
    "/v2",
    "X-OpenStack-Manila-API-Version",
    "2.{}",
    tuple(sentence for _, sentence in VERSIONS),
)
_FORM = re.compile(r"[1-9]\d*\.(?:[1-9]\d*|0)")
_KNOWN = {number: place for place, (number, _) in enumerate(VERSIONS)}


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
                    {"rel": "describedby", "type": "application/json", "href": f"{base}/abaca/v1/openapi"},
                ],
                "media-types": [{"base": "application/json", "type": "application/vnd.openstack.share+json;version=1"}],
            }
        ]
    }
