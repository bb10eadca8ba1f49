# SPDX-License-Identifier: Apache-2.0
"""The local driver's options."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

import msgspec

from abaca.drivers import contract

# What the kernel takes, and no more than needs no quoting anywhere.
LINK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class LocalOptions(contract.Driver.Options, frozen=True, kw_only=True):
    """How the host's storage is used and served."""

    pool_device: Annotated[
        str, msgspec.Meta(description="Block device for the pool; it must be empty, or hold this back end's pool.")
    ] = ""
    pool_image: Annotated[
        str,
        msgspec.Meta(
            description="Without a device: the file that holds the pool, made when absent; "
            "by default `pool.img` in the back end's state directory."
        ),
    ] = ""
    pool_size_gib: Annotated[
        contract.Positive,
        msgspec.Meta(description="Size of that file in GiB. It takes space as it fills; a larger value grows it."),
    ] = 20
    export_ips: Annotated[
        tuple[str, ...],
        msgspec.Meta(description="Addresses of this host in export locations; the first is preferred."),
    ] = ("127.0.0.1",)
    ganesha_port: Annotated[Port, msgspec.Meta(description="TCP port of the NFS server.")] = 2049
    ganesha_netns: Annotated[
        str, msgspec.Meta(description="Path of a network namespace to serve in, such as `/run/netns/storage`.")
    ] = ""
    nfs_minor_versions: Annotated[
        tuple[Literal[0, 1, 2], ...], msgspec.Meta(description="NFS 4 minor versions that are served.")
    ] = (1, 2)
    grace_s: Annotated[
        Annotated[int, msgspec.Meta(ge=2, le=180)],
        msgspec.Meta(description="Seconds that clients have to come back after the NFS server was started again."),
    ] = 10
    segment_bridges: Annotated[
        dict[str, str],
        msgspec.Meta(
            description="With share servers: bridges of this host for segments, as pairs such as `vlan-101:br101`. "
            "Left of the colon stands a type and number, the id of a network or subnet, or a type alone; any other "
            "segment gets a bridge of its own."
        ),
    ] = msgspec.field(default_factory=dict)
    server_memory_mib: Annotated[
        Annotated[int, msgspec.Meta(ge=256)],
        msgspec.Meta(description="With share servers: the memory that the NFS server of each may take, in MiB."),
    ] = 1024
    server_open_files: Annotated[
        Annotated[int, msgspec.Meta(ge=256)],
        msgspec.Meta(description="With share servers: how many files the NFS server of each may have open."),
    ] = 4096
    root_mode: Annotated[
        str, msgspec.Meta(pattern="^[0-7]{3,4}$", description="Permissions of a new share's top directory, octal.")
    ] = "0777"

    def __post_init__(self) -> None:
        if not self.export_ips:
            raise ValueError("export_ips must name an address")
        for address in self.export_ips:
            ipaddress.ip_address(address)
        for bridge in self.segment_bridges.values():
            if not LINK_NAME.fullmatch(bridge):
                raise ValueError(f"segment_bridges: {bridge!r} is no name of a bridge")
