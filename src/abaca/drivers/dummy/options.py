# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's options."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

import msgspec

from abaca.drivers import contract
from abaca.drivers.contract import promises
from abaca.drivers.dummy import fault_injection

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]
Protocol = Literal["NFS", "CIFS", "CEPHFS", "GLUSTERFS", "HDFS", "MAPRFS"]


class DummyOptions(contract.Driver.Options, frozen=True, kw_only=True):
    """What an operator may order of a dummy back end."""

    pool_count: Annotated[
        contract.Positive, msgspec.Meta(description="How many pools there are: pool1, pool2 and so on.")
    ] = 1
    pool_size_gib: Annotated[contract.Positive, msgspec.Meta(description="Size of each pool in GiB.")] = 1_000_000
    thin_provisioning: Annotated[
        bool, msgspec.Meta(description="More may be claimed than there is, up to max_over_subscription_ratio.")
    ] = True
    protocols: Annotated[
        tuple[Protocol, ...],
        msgspec.Meta(description="Protocols that are announced, and that share types can ask for."),
    ] = ("NFS", "CIFS", "CEPHFS", "GLUSTERFS")
    replication_type: Annotated[
        contract.ReplicationType,
        msgspec.Meta(description="How users reach replicas that are not active: to write, to read, or not at all."),
    ] = "dr"
    export_ips: Annotated[
        tuple[str, ...], msgspec.Meta(description="Addresses in export locations; the first is preferred.")
    ] = ("127.0.0.1",)
    admin_export_ips: Annotated[
        tuple[str, ...], msgspec.Meta(description="Addresses in export locations that only administrators see.")
    ] = ()
    access_types: Annotated[
        tuple[contract.AccessType, ...],
        msgspec.Meta(description="Access rule types it honours; others are errors."),
    ] = ("ip", "user", "cert", "cephx")
    delays: Annotated[
        dict[str, float],
        msgspec.Meta(
            description="Seconds a method takes, half before and half after its effect: `create:0.2,all:0.01`."
        ),
    ] = msgspec.field(default_factory=dict)
    failures: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="Methods that fail, counted over all workers: `create:Unreachable:3` the first three "
            "times, `delete:Refused` always, `extend:Busy:1:after` once, after the effect."
        ),
    ] = ()
    progress_percent: Annotated[
        Percent, msgspec.Meta(description="How much further a long call, such as a migration, is at each look.")
    ] = 100
    ensured_metadata: Annotated[
        dict[str, str], msgspec.Meta(description="Metadata that ensuring gives every share: `place:here`.")
    ] = msgspec.field(default_factory=dict)
    driver_data: Annotated[
        dict[str, str], msgspec.Meta(description="What it wants kept for every share: `volume:7`.")
    ] = msgspec.field(default_factory=dict)
    revision: Annotated[str, msgspec.Meta(description="Change it, and shares are ensured at the next start.")] = ""

    def __post_init__(self) -> None:
        methods = sorted({name for promise in promises.every() for name in promises.methods(promise)})
        fault_injection.parse_failures(self.failures, methods)
        for method in self.delays:
            fault_injection.check_method(method, (*methods, "all"))
        if not self.protocols:
            raise ValueError("protocols must name a protocol")
        for address in (*self.export_ips, *self.admin_export_ips):
            ipaddress.ip_address(address)
