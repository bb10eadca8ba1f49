# SPDX-License-Identifier: Apache-2.0
"""The copies of a share on back ends, as far as the work on them needs to know them."""

from __future__ import annotations

import datetime

import msgspec

from abaca import errors


class PlacedInstance(msgspec.Struct, frozen=True, gc=False):
    """An instance on a back end: what names the work on it. `host` is host@backend#pool."""

    id: str
    share_id: str
    host: str


class InstanceStatus(msgspec.Struct, frozen=True, gc=False):
    """An instance, of which only the status matters."""

    id: str
    share_id: str
    status: str


class InstanceThere(InstanceStatus, frozen=True, gc=False):
    """The same with where it is: host@backend#pool."""

    host: str


class ShareInstance(msgspec.Struct, frozen=True, gc=False):
    """An instance with what its driver is told of the share: `size` in GiB, `metadata`, the `extra_specs` of the type.

    `host` is host@backend#pool, None where no pool could take it. `driver_data` is what the driver wants kept,
    `server_details` what it wants told of the share server that the instance is on.
    `created_at` is naive UTC.
    """

    id: str
    share_id: str
    project_id: str
    user_id: str | None
    size: int
    share_proto: str
    mount_point_name: str | None
    encryption_key_ref: str | None
    metadata: dict[str, str]
    share_type_id: str | None
    extra_specs: dict[str, str] | None
    driver_data: dict[str, str] | None
    share_server_id: str | None
    server_details: dict[str, str] | None
    host: str | None
    status: str
    access_rules_status: str
    cast_rules_to_readonly: bool
    created_at: datetime.datetime

    def placed(self) -> PlacedInstance:
        """The instance on its back end. Raises `Conflict` where it is on none."""
        if self.host is None:
            raise errors.Conflict(f"Share {self.share_id} is on no back end, whatever its status says; delete it.")
        return PlacedInstance(self.id, self.share_id, self.host)
