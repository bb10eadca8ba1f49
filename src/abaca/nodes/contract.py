# SPDX-License-Identifier: Apache-2.0
"""What mounting on a machine promises, and what a protocol's mounter brings to it.

Arguments and results are frozen values. Every call is idempotent and may be repeated after a crash at any point inside
it: "already so" is success, absent on unmount is success. What a machine says is believed only where its own mount
table says it. A call raises only the errors below; those whose class says `may_pass` are worth another try later, the
others want a person first.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal, Protocol

import msgspec

from abaca import errors
from abaca.domain.attachments.servers import Login


class NodeError(errors.AbacaError):
    """The machine {host} failed: {reason}"""

    code = "NodeError"
    may_pass: ClassVar[bool] = False


class MachineUnreachable(NodeError):
    """The machine {host} cannot be reached: {reason}"""

    code = "MachineUnreachable"
    may_pass = True


class Stopping(MachineUnreachable):
    """It is not known what has become of the machine {host}: the worker is stopping."""

    code = "WorkerStopping"


class TimedOut(NodeError):
    """The machine {host} did not finish in time: {reason}"""

    code = "MachineTimedOut"
    may_pass = True


class HostKeyMismatch(NodeError):
    """The machine at {host} is not the one that was registered: {reason}"""

    code = "HostKeyMismatch"


class NotAllowed(NodeError):
    """The machine {host} refuses the login: {reason}"""

    code = "LoginRefused"


class MountRefused(NodeError):
    """The machine {host} cannot mount it: {reason}"""

    code = "MountRefused"


class Unsupported(NodeError):
    """The machine {host} cannot be served: {reason}"""

    code = "MachineUnsupported"


class Holder(msgspec.Struct, frozen=True):
    """Who keeps a mount in use: a process by its command line, or pid 0 and a word for what is no process."""

    pid: int
    command: str


class InUse(NodeError):
    """The share is in use on the machine {host}, by {who}."""

    code = "MountInUse"
    may_pass = True

    def __init__(self, *, host: str, holders: tuple[Holder, ...]) -> None:
        self.holders = holders
        who = "; ".join(f"process {one.pid} ({one.command})" if one.pid else one.command for one in holders)
        super().__init__(host=host, who=who or "something that cannot be named")


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    """A guest of a hypervisor that is handed the share as a device: `tag` is what the guest mounts it by.

    `qmp_socket` is where its QEMU takes orders on the hypervisor, a socket that nothing else holds.
    """

    tag: str
    qmp_socket: str


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine shows of itself to storages that know their clients by certificates.

    `name` is the certificate's common name; `certificate`, for the machine's own key, and that of its `authority` are
    in PEM form, and empty as long as none was issued.
    """

    name: str
    certificate: str = ""
    authority: str = ""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A share as it is wanted on a machine.

    `name` tells whose it is on the machine (an attachment's id); `source` is the export location, e.g.
    `10.0.0.10:/shares/x` or `[fd77::1]:/shares/x`; `mount_point` is absolute and normalised. With `guest` the machine
    is a hypervisor: it mounts the share where Abaca likes, and `mount_point` is only what the guest may do with it.
    `former` is a name that nobody has any more: where its mark keeps this very source, it is taken over. `was_seen`
    says that we have had it mounted there: it is ours to unmount though our mark was lost. `others` are further export
    locations of the same share. `identity` is needed where the protocol's machines are known by certificates.
    """

    name: str
    protocol: str = "NFS"
    source: str
    mount_point: str
    is_read_only: bool = False
    guest: Guest | None = None
    former: str = ""
    was_seen: bool = False
    others: tuple[str, ...] = ()
    identity: Identity | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A mount as the machine's mount table says it is.

    `made_directory`: the directory was made for it; `is_persistent`: it comes back after a reboot; `boot_id` changes
    with each boot of the machine; `needs_certificate`: the one by which it is let in ends soon; `is_outdated`: it comes
    back, but not as it would be mounted by now, e.g. when the share has other export locations.
    """

    source: str
    mount_point: str
    fstype: str
    options: tuple[str, ...] = ()
    is_read_only: bool = False
    made_directory: bool = False
    is_persistent: bool = False
    boot_id: str = ""
    needs_certificate: bool = False
    is_outdated: bool = False


class Distribution(msgspec.Struct, frozen=True):
    """A machine's operating system by its /etc/os-release: `ID`, `ID_LIKE`, and the name that people read."""

    id: str
    like: tuple[str, ...] = ()
    name: str = ""


class Mounter(abc.ABC):
    """A protocol that machines can mount. One module each; what it returns is quoted by the caller, never by it."""

    protocols: ClassVar[tuple[str, ...]]
    # What the mount table says, and what `mount -t` is given unless that is another word.
    fstype: ClassVar[str]
    mount_type: ClassVar[str] = ""
    # The programs without which a machine cannot mount it, with a blank between them, e.g. mount.nfs.
    program: ClassVar[str]
    # Where its servers listen, for who asks whether they do; 0 where that is not known.
    port: int = 0
    # Machines show a certificate to its servers.
    is_certified: ClassVar[bool] = False

    @abc.abstractmethod
    def packages(self, distribution: Distribution) -> tuple[str, ...]:
        """The packages in which the distribution, or its family, has `program`; none for one that is unknown."""

    @abc.abstractmethod
    def check(self, source: str) -> str | None:
        """Why this protocol cannot mount `source`; None when it can."""

    def place_problem(self, _mount_point: str) -> str | None:
        """Why this protocol cannot mount at a place where others can; None when it can."""
        return None

    @abc.abstractmethod
    def options(self, mount: Mount) -> tuple[str, ...]:
        """The mount options, `ro` or `rw` first; nothing that only matters at boot."""

    def plain_options(self, mount: Mount) -> tuple[str, ...] | None:
        """The options for a machine without `program` whose kernel can do it alone; None where there is no such way."""
        return None

    def is_same(self, source: str, other: str) -> bool:
        """Whether two sources name the same place; either may be written as a mount table writes it."""
        return source.rstrip("/") == other.rstrip("/")


class Finding(msgspec.Struct, frozen=True):
    """What one step of the way to a machine has shown; `is_well` is None where that cannot be said."""

    name: str
    is_well: bool | None
    said: str


Action = Literal["mount", "look", "unmount", "remount", "clear"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one machine, for `many`. `old` is an argument of remount, `force` one of remount and unmount."""

    action: Action
    login: Login
    mount: Mount
    old: Mount | None = None
    force: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job: `seen` as the action returns it, or the `error`."""

    job: Job
    seen: Seen | None = None
    error: NodeError | None = None


class Machines(Protocol):
    """What operations call; `nodes.mounts.Nodes` does it by SSH. Calls block, and come from many threads.

    All raise `MachineUnreachable`, `TimedOut`, `HostKeyMismatch`, `NotAllowed`.
    """

    def mount(self, login: Login, mount: Mount) -> Seen:
        """Mount the share, verify it and make it persistent; install the client's packages where they are missing.

        Raises `Unsupported`, and `MountRefused` with nothing changed: the mount point is occupied or not empty, or the
        server refuses. Where the mark of another attachment stands in the way, the error's details name it as `owner`.
        """

    def request(self, login: Login, mount: Mount) -> str:
        """A signing request, in PEM form, for the key by which the machine is known to storages.

        The key is made when there is none, never leaves the machine, and goes with the last mount that needs it. Raises
        as `mount` does, `MountRefused` too where the machine has a certificate of somebody else.
        """

    def look(self, login: Login, mount: Mount) -> Seen | None:
        """The mount as the machine sees it; None when it is not mounted there. Changes nothing."""

    def unmount(self, login: Login, mount: Mount, *, force: bool = False) -> None:
        """Unmount the share, remove what made it persistent, and the directory if it was made for it and is empty.

        Raises `InUse`, which names the processes that hold it, and keeps it persistent. With `force` it is detached
        from under those processes.
        """

    def clear(self, login: Login, mount: Mount) -> None:
        """Remove by force whatever bears the mark of `mount.name` on the machine, and nothing else."""

    def remount(self, login: Login, mount: Mount, old: Mount, *, force: bool = False) -> Seen:
        """Mount `mount.source` in the place of `old.source`. Raises `InUse` as long as files of the old one are open.

        From the first call on a reboot mounts the new one. With `force` the old one is detached from under its holders,
        who lose those files; so is one whose server does not answer any more.
        """

    def probe(self, login: Login, protocol: str = "NFS", address: str = "", port: int = 0) -> list[Finding]:
        """What each step of the way there shows, and of the way from there to a storage's address; it changes nothing.

        Raises nothing for what does not work; after the first step that fails the others are not tried.
        """

    def many(self, jobs: list[Job]) -> list[Outcome]:
        """Do all jobs side by side; their outcomes, in the same order. What fails on a machine is in its outcome."""

    def close(self) -> None:
        """End what is under way, and close the connections."""
