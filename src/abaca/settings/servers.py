# SPDX-License-Identifier: Apache-2.0
"""Options of what is done on servers: where they come from, and how shares are mounted there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from abaca.settings.options import LONG_S, Names, Port, Section, said


class Compute(Section, frozen=True):
    """Where the servers come from that shares are attached to, and how a worker gets into them."""

    plugin: Annotated[
        Literal["inventory", "nova"],
        said("`inventory`: the servers that administrators register. `nova`: those of a Nova."),
    ] = "inventory"
    key_directory: Annotated[
        Path, said("Directory of the private keys that servers may refer to with `file:`; absolute.")
    ] = Path("/etc/abaca/keys")
    nova_clouds_file: Annotated[Path, said("The clouds.yaml that says how Nova is reached as an administrator.")] = (
        Path("/etc/abaca/clouds.yaml")
    )
    nova_cloud: Annotated[str, said("The name of its cloud there.")] = "nova"
    nova_ssh_user: Annotated[
        str, said("Login on the servers of a Nova, unless their metadata say `abaca_ssh_user`.")
    ] = "root"
    nova_key: Annotated[
        str | None, said("Where the private key for them is: `file:` and a path below `key_directory`.")
    ] = None
    nova_known_hosts: Annotated[
        Path | None, said("Host keys of the servers of a Nova, as in OpenSSH's known_hosts. Unset: Nova is asked.")
    ] = None
    nova_network: Annotated[
        str | None, said("Network over which workers reach the servers of a Nova. Unset: the first address.")
    ] = None
    nova_timeout_s: Annotated[float, said("Seconds after which a Nova that is silent counts as away.", gt=0)] = 10


class Nodes(Section, frozen=True):
    """How shares are mounted on servers, and how it is seen to that they stay so."""

    plugin: Annotated[
        Literal["ssh", "rehearsal"],
        said("`ssh`: on the machines themselves. `rehearsal`: on paper only, to try things and for load tests."),
    ] = "ssh"
    max_connections: Annotated[int, said("Machines that one worker works on at a time.", ge=1, le=256)] = 48
    connect_timeout_s: Annotated[
        float, said("Seconds to reach a machine and to log in; one that is silent for so long is lost.", gt=0)
    ] = 15
    command_timeout_s: Annotated[float, said("Seconds for one command on a machine, such as mounting.", gt=0)] = 60
    install_timeout_s: Annotated[float, said("Seconds for installing the client's packages.", gt=0)] = 600
    nfs_port: Annotated[Port, said("Where the NFS servers of the back ends listen.")] = 2049
    mount_roots: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._@-]{0,254}:)?/\S+$")], ...],
        said(
            "Directories below which members may attach shares, beside those that they always may: `/net` on all "
            "servers, `ID:/net` on the server, or on those of the project, with that id."
        ),
    ] = ()
    mount_options: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(=[A-Za-z0-9._:-]+)?$")], ...],
        said("Options of every mount beside those of its protocol. Empty: set-user-id programs of shares work."),
    ] = ("nosuid", "nodev")
    verify_interval_s: Annotated[
        float, said("Seconds after which an attachment is looked at again on its machine.", ge=1, le=LONG_S)
    ] = 600
    longest_pause_s: Annotated[
        float, said("Longest pause, in seconds, between tries of what failed on a machine.", ge=1, le=86400)
    ] = 600
    rehearsal_delays: Annotated[
        Mapping[str, float],
        said(
            "Rehearsal: seconds that methods take, such as `mount:0.5,all:0.1`: mount, look, unmount, remount, clear."
        ),
    ] = field(default_factory=dict)
    rehearsal_failures: Annotated[
        Names, said("Rehearsal: methods that fail, such as `mount:Unreachable` or `mount:TimedOut:10.0.0.7`.")
    ] = ()
