# SPDX-License-Identifier: Apache-2.0
"""A share on a server: its states, and what may be said of where it is mounted.

`wanted` says which way an attachment in error goes when it is tried again: `attached` or `detached`.
"""

from __future__ import annotations

import datetime
import re
from typing import Literal

import msgspec

from abaca import errors
from abaca.domain.state_machine import StateMachine

Mode = Literal["network", "virtiofs"]
MODES: tuple[Mode, ...] = ("network", "virtiofs")

ATTACHMENT = StateMachine(
    "attachment",
    # at                                     event       to
    ("none",                                 "attach",   "attaching"),
    ("attaching",                            "attached", "active"),
    ("attaching",                            "prepared", "inactive"),  # for a machine that is off: let in, not mounted
    ("active",                               "stopped",  "inactive"),
    ("attaching",                            "failed",   "error"),
    ("inactive",                             "attached", "active"),
    (("active", "error", "inactive"),        "attach",   "attaching"),  # it is made true again
    (("active", "inactive"),                 "lost",     "error"),  # verified, and found not to be so
    ("active",                               "remount",  "remounting"),
    ("remounting",                           "attached", "active"),
    ("remounting",                           "failed",   "error"),
    (("attaching", "active", "inactive",
      "remounting", "error"),                "detach",   "detaching"),
    ("detaching",                            "detached", "gone"),
    ("detaching",                            "failed",   "error"),
    busy=("attaching", "remounting", "detaching"),
)  # fmt: skip


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """A share on a server. Times are naive UTC.

    `wanted` is `attached` or `detached`: where it goes from an error. `addresses` are those that the access rules let
    in, and `source` is the export location in use; `awaited_source` is where it goes when no files are open any more.
    `attempts` counts the tries that failed in a row; the next comes at `retry_at`. With `is_forced` it is detached
    though files are open, and though its machine cannot be entered. `cluster_id` is the cluster that made it; with
    `network` that is let in, in the place of the server's addresses.
    """

    id: str
    share_id: str
    server_id: str
    project_id: str
    user_id: str | None
    mode: Mode
    mount_point: str
    tag: str
    access_level: Literal["rw", "ro"]
    state: str
    wanted: Literal["attached", "detached"]
    is_forced: bool
    addresses: list[str]
    source: str | None
    awaited_source: str | None
    made_directory: bool
    last_verified_at: datetime.datetime | None
    error_code: str | None
    error_text: str | None
    attempts: int
    retry_at: datetime.datetime | None
    cluster_id: str | None
    network: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class OrphanedMount(msgspec.Struct, frozen=True, gc=False):
    """What a forced detach gave up on a machine that could not be entered; `id` was the attachment's.

    `machine_id` is the server that has it: the hypervisor of then, with the guest's `qmp_socket`, or the server itself.
    """

    id: str
    server_id: str
    machine_id: str
    qmp_socket: str | None
    mode: Mode
    tag: str
    mount_point: str
    protocol: str
    source: str
    attempts: int
    retry_at: datetime.datetime
    created_at: datetime.datetime


# What machines can mount over the network; a test compares it with the mounters there are.
PROTOCOLS = ("NFS", "GLUSTERFS")

# The code of the error that ends when the server is on, and not by trying again.
SERVER_OFF = "ServerOff"

# What a user, or an operator, can do about an attachment in error, by the error's code.
MENDS = {
    "MachineUnreachable": "Start the server, or let its SSH be reached; it is tried again by itself. "
    "To detach without the server use force.",
    SERVER_OFF: "Start the server, and it goes on by itself. To detach without the server use force: its access ends "
    "at once, and what is mounted there goes when the server is on again.",
    "MachineTimedOut": "See what the server is busy with; it is tried again by itself.",
    "HostKeyMismatch": "Find out why the server shows another host key; if it was made anew, register its new key.",
    "LoginRefused": "Let the registered user log in to the server with the registered key.",
    "NoWayIn": "Register how to log in to the server: its host key and the reference to a private key.",
    "ComputeUnreachable": "Nothing: it goes on when the compute service answers. To detach without it use force.",
    "ServerUnreachable": "Nothing: it goes on when the compute service finds the server again. To detach without it "
    "use force.",
    "NoHypervisor": "Have an operator register the server's hypervisor and QMP socket, or attach it by network.",
    "MountRefused": "Free the mount point on the server or choose another one, and see whether it reaches the storage.",
    "MachineUnsupported": "Install the protocol's client on the server by hand, or attach to another server.",
    "MountInUse": "End the processes that it names, or detach with force.",
    "StillOpen": "Close the files of the former address, and it moves. Or verify it with force: it moves at once, and "
    "the processes that have them open lose them; that helps too when the former address is gone.",
    "Refused": "Change or deny the access rule that stands in the way, or give the server an address that is let in.",
    "RulePending": "See why the share's back end does not apply its access rules.",
    "WorkerStopping": "Nothing: another worker goes on with it.",
    "ServerGone": "Nothing: the attachment goes by itself.",
}


def mend(error_code: str | None) -> str | None:
    """What to do about an error of this code."""
    return None if error_code is None else MENDS.get(error_code, "Ask the operator, with the attachment's id.")


# Delays, in seconds, before an attachment in error is tried again; the last goes on for ever.
RETRY_S = (30, 60, 120, 300, 600, 1800, 3600)

# As long as the device has room for.
VIRTIOFS_TAG = 36
_TAG = re.compile(r"[A-Za-z0-9-]{1,255}")


def check_tag(tag: str | None, share_id: str, mode: str = "network") -> str:
    """The name by which a hypervisor hands the share in; the share's id where nothing is said. Raises `Invalid`."""
    if tag is None:
        return share_id
    if mode == "virtiofs" and not 1 <= len(tag) <= VIRTIOFS_TAG:
        raise errors.Invalid(f"The tag of a virtiofs device has at most {VIRTIOFS_TAG} letters, digits and '-'.")
    if not _TAG.fullmatch(tag):
        raise errors.Invalid("A tag has 1 to 255 letters, digits and '-'.")
    return tag


def retry_delay_s(attempts: int, longest_s: float = RETRY_S[-1]) -> float:
    """How long an attachment in error waits after `attempts` tries in a row, in seconds, `longest_s` at most."""
    return min(RETRY_S[min(max(attempts, 1), len(RETRY_S)) - 1], longest_s)
