# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver's options."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from abaca.drivers import contract
from abaca.drivers.glusterfs import durability


class GlusterfsOptions(contract.Driver.Options, frozen=True, kw_only=True):
    """Where Heketi is, how its nodes are logged in to, and what its volumes are like."""

    heketi_url: Annotated[
        str, msgspec.Meta(description="Where Heketi listens, such as `https://heketi.example.org:8080`.")
    ] = ""
    heketi_key_file: Annotated[
        str, msgspec.Meta(description="The file with the administrator's key, `jwt.admin.key` of heketi.json.")
    ] = ""
    heketi_ca_file: Annotated[
        str, msgspec.Meta(description="Certificates that prove Heketi. Unset: those that this host knows.")
    ] = ""
    heketi_timeout_s: Annotated[
        contract.Positive, msgspec.Meta(description="Seconds that Heketi may take to answer a request.")
    ] = 30
    patience_s: Annotated[
        contract.Positive,
        msgspec.Meta(description="Seconds that Heketi may take for a volume, its turn included; then it is given up."),
    ] = 3600
    clusters: Annotated[
        dict[str, str],
        msgspec.Meta(
            description="The clusters that are pools, as `name:id`. Unset: all that Heketi has, under their ids."
        ),
    ] = msgspec.field(default_factory=dict)
    reserve_percent: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=90)],
        msgspec.Meta(description="Of the devices' room the part that is told to nobody: what bricks need besides."),
    ] = 5
    durability: Annotated[
        str,
        msgspec.Meta(
            description="What share types get that ask for nothing: `replica 2`, `replica 3`, `disperse 2+1`, `4+2`, "
            "`8+3` or `8+4`, or `none`, by which one lost disk loses shares. The pools' sizes are told for it."
        ),
    ] = "replica 3"
    snapshots_per_share: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=99)],
        msgspec.Meta(
            description="How many snapshots a share can have at a time. For each its volume takes its whole size once "
            "more of the devices, from the day on which the share is made. 0: there are none."
        ),
    ] = 0
    ssh_user: Annotated[
        str, msgspec.Meta(description="Who logs in to the nodes; others than root need `sudo` without a password.")
    ] = "root"
    ssh_port: Annotated[int, msgspec.Meta(ge=1, le=65535, description="Where the nodes' SSH servers listen.")] = 22
    ssh_key_file: Annotated[str, msgspec.Meta(description="The private key that logs in to the nodes.")] = ""
    ssh_known_hosts: Annotated[
        str, msgspec.Meta(description="The nodes' host keys, as `ssh-keyscan` writes them; others are refused.")
    ] = ""
    authority_certificate: Annotated[
        str,
        msgspec.Meta(
            description="The certificate authority of all volumes, a PEM file. Unset: one is made in the back end's "
            "state directory, which is enough where one host serves the back end."
        ),
    ] = ""
    authority_key: Annotated[str, msgspec.Meta(description="Its private key, without a passphrase.")] = ""
    certificate_days: Annotated[
        contract.Positive, msgspec.Meta(description="How long the nodes' certificates, and issued ones, are good.")
    ] = 1825
    export_ips: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="Addresses of the worker's host in export locations of NFS shares, the first preferred. Unset: "
            "there are no NFS shares."
        ),
    ] = ()
    ganesha_port: Annotated[int, msgspec.Meta(ge=1, le=65535, description="TCP port of the NFS server.")] = 2049
    ganesha_netns: Annotated[
        str, msgspec.Meta(description="Path of a network namespace to serve NFS in, such as `/run/netns/storage`.")
    ] = ""
    nfs_minor_versions: Annotated[
        tuple[Literal[0, 1, 2], ...], msgspec.Meta(description="NFS 4 minor versions that are served.")
    ] = (1, 2)
    grace_s: Annotated[
        Annotated[int, msgspec.Meta(ge=2, le=180)],
        msgspec.Meta(description="Seconds that clients have to come back after the NFS server was started again."),
    ] = 10
    tls_directory: Annotated[
        str, msgspec.Meta(pattern="^(/[A-Za-z0-9._-]+)+$", description="Where the nodes' certificates are.")
    ] = "/etc/ssl"

    def __post_init__(self) -> None:
        durability.read(self.durability)
        parts = urlsplit(self.heketi_url)
        if self.heketi_url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query):
            raise ValueError("heketi_url must look like https://heketi.example.org:8080")
        for address in self.export_ips:
            try:
                ipaddress.ip_address(address)
            except ValueError as error:
                raise ValueError(f"export_ips: {address!r} is no address of IPv4 or IPv6") from error
        if bool(self.authority_certificate) != bool(self.authority_key):
            raise ValueError("authority_certificate and authority_key go together")

    def check(self) -> None:
        """Raises `contract.Refused` when something is missing that has no default."""
        for name in ("heketi_url", "heketi_key_file", "ssh_key_file", "ssh_known_hosts"):
            if not getattr(self, name):
                raise contract.Refused(reason=f"{name} is not set")
