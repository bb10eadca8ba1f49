# SPDX-License-Identifier: Apache-2.0
"""What a storage driver promises, and what it may count on.

Arguments and results are frozen values. A driver never sees the database. Every call is idempotent and may be repeated
after a crash at any point inside it: "already so" is success, absent on delete is success. A call works on one thing at
a time; calls for different instances run at the same time in different threads. A driver raises only the five errors
below; `Busy` and `Unreachable` are retried by the caller with growing delays, the others end the operation.

What a class inherits from the capability classes is what the scheduler and the API announce; a class that claims a
capability without implementing it cannot be constructed.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from abaca import errors

AccessType = Literal["ip", "user", "cert", "cephx"]
AccessLevel = Literal["rw", "ro"]


class Busy(errors.BackendError):
    """The back end is busy with this: {reason}"""

    code = "Busy"


class Full(errors.BackendError):
    """The back end has no room left: {reason}"""

    code = "Full"


class Gone(errors.BackendError):
    """The back end no longer has it: {reason}"""

    code = "Gone"


class Refused(errors.BackendError):
    """The back end refuses: {reason}"""

    code = "Refused"


class Unreachable(errors.BackendError):
    """The back end cannot be reached: {reason}"""

    code = "Unreachable"


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value passed over the contract."""


class Export(Value, frozen=True, kw_only=True):
    """A place where a share can be mounted from: `path` as clients write it, e.g. `10.0.0.5:/shares/x`."""

    path: str
    is_admin_only: bool = False
    preferred: bool = False


class ShareServer(Value, frozen=True, kw_only=True):
    """Who serves an instance when the driver handles share servers; `details` is what set-up returned."""

    id: str
    details: Mapping[str, str] = msgspec.field(default_factory=dict)


class ShareInstance(Value, frozen=True, kw_only=True):
    """One copy of a share on one back end. `id` is what names it there; `pool` is the pool's name alone."""

    id: str
    share_id: str
    project_id: str
    size_gib: int
    protocol: str
    pool: str
    mount_point_name: str | None = None
    share_metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    extra_specs: Mapping[str, str] = msgspec.field(default_factory=dict)
    exports: Sequence[Export] = ()
    server: ShareServer | None = None
    # False: somebody else may be changing it, and its size, at this moment
    is_held: bool = True


class Snapshot(Value, frozen=True, kw_only=True):
    """A snapshot of `instance`; `id` names it on the back end."""

    id: str
    instance: ShareInstance
    provider_location: str | None = None


class AccessRule(Value, frozen=True, kw_only=True):
    """Who may reach an instance: `to` is an address or network, a user, a certificate's common name, a cephx id."""

    id: str
    type: AccessType
    to: str
    level: AccessLevel = "rw"


class AccessOutcome(Value, frozen=True, kw_only=True):
    """What became of one rule: `state` active or error with the `reason`; `key` where the back end hands out one."""

    state: Literal["active", "error"] = "active"
    key: str | None = None
    reason: str | None = None


class PoolStats(Value, frozen=True, kw_only=True):
    """A pool as the back end sees it now; sizes in GiB, None when the back end cannot tell.

    `capabilities` holds what scheduling compares beyond what the driver's base classes already announce.
    """

    name: str
    total_gib: float | None
    free_gib: float | None
    allocated_gib: float | None = None
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Backend(Value, frozen=True, kw_only=True):
    """The settings every back end has, whatever its driver. `name` is its section, `host` is `host@backend`.

    `state_dir` belongs to this back end alone.
    """

    name: str
    host: str
    share_backend_name: str
    state_dir: Path

    availability_zone: str = "nova"
    driver_handles_share_servers: bool = False
    reserved_percentage: int = 0
    reserved_snapshot_percentage: int = 0
    reserved_share_extend_percentage: int = 0
    max_over_subscription_ratio: float = 20.0


class EnsureOutcome(Value, frozen=True, kw_only=True):
    """What ensuring found for one instance; None means unchanged.

    `repairs` says in a few words each what was not so on the back end, and now is. With `is_failed` it could not be
    ensured for `reason`, and stays as it was.
    """

    exports: Sequence[Export] | None = None
    status: Literal["available", "error"] | None = None
    reason: str | None = None
    share_metadata: Mapping[str, str] | None = None
    reapply_access_rules: bool = False
    repairs: Sequence[str] = ()
    is_failed: bool = False


class Driver(abc.ABC):
    """A back end. Constructing it only stores; `start` touches the world."""

    class Options(msgspec.Struct, frozen=True, kw_only=True):
        """The driver's own settings: typed fields, each with a default and `msgspec.Meta(description=...)`."""

    vendor: ClassVar[str] = "Open Source"
    version: ClassVar[str] = "1.0"
    protocols: ClassVar[tuple[str, ...]] = ("NFS",)
    # What is announced beyond what the base classes say, under the names that share types ask for.
    announces: ClassVar[Mapping[str, Any]] = {}
    # Of the addresses that clients may come from; a driver that learns it from its options sets it when constructed.
    ip_versions: tuple[int, ...] = (4,)
    # Options that may change while it serves; the others wait for the next start.
    changeable: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, backend: Backend, options: Any) -> None:
        self.backend = backend
        self.options = options

    def change(self, options: Any) -> None:
        """Serve by these options, of which only `changeable` ones differ; calls under way end by either."""
        self.options = options

    @abc.abstractmethod
    def start(self) -> None:
        """Make the back end ready; run again after every start of the worker.

        Raises `Unreachable` when it may come later (the worker tries again), `Refused` with the mend when it will not.
        """

    @abc.abstractmethod
    def stop(self) -> None:
        """Let go of connections and threads. What clients use stays up."""

    @abc.abstractmethod
    def pools(self) -> list[PoolStats]:
        """The pools as they are now. Raises `Unreachable`."""

    @abc.abstractmethod
    def create(self, instance: ShareInstance) -> list[Export]:
        """Make the share and export it to nobody yet. Raises `Full`, `Refused`, `Busy`, `Unreachable`."""

    @abc.abstractmethod
    def delete(self, instance: ShareInstance) -> None:
        """Take away the export and the data of exactly this instance. Absent is success. Raises `Busy`, `Refused`."""

    @abc.abstractmethod
    def set_access(self, instance: ShareInstance, rules: Sequence[AccessRule]) -> dict[str, AccessOutcome]:
        """Make `rules` the whole set of who may reach the instance; mounted clients see it at once.

        A rule left out of the answer is active. A rule of a type the back end cannot honour is answered `error`; it
        does not fail the others. Raises `Gone`, `Busy`, `Unreachable`.
        """

    def backend_info(self) -> dict[str, str]:
        """What, when it differs from the last start, makes the back end's shares be ensured again."""
        return {}


class Resizes(abc.ABC):
    """Shares grow and shrink while they are in use."""

    @abc.abstractmethod
    def extend(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Grow to `new_size_gib`. Raises `Full`."""

    @abc.abstractmethod
    def shrink(self, instance: ShareInstance, new_size_gib: int) -> None:
        """Shrink to `new_size_gib`; raises `Refused`, with nothing changed, when more than that is in use."""


class Ensures(abc.ABC):
    """The back end can make many shares true again in one call."""

    @abc.abstractmethod
    def ensure(self, instances: Sequence[ShareInstance]) -> dict[str, EnsureOutcome]:
        """Repair what is missing; an instance left out of the answer is unchanged. Raises `Unreachable`.

        The size of one that is not `is_held` is left alone: somebody may be changing it.
        """


class EnsuresEach(abc.ABC):
    """The back end makes shares true again one by one: for those that have no way to do many in one call."""

    @abc.abstractmethod
    def ensure_share(self, instance: ShareInstance) -> EnsureOutcome | None:
        """As `Ensures.ensure` for one; None when it is unchanged. Called from several threads at once.

        Raises `Gone` when the back end does not have it. Whatever else it raises fails this one alone.
        """


class Inspects(abc.ABC):
    """What ensuring would do can be seen before it is done."""

    @abc.abstractmethod
    def inspect(self, instances: Sequence[ShareInstance]) -> dict[str, EnsureOutcome]:
        """What `ensure` would answer now, with nothing changed at all. Raises `Unreachable`."""


class Snapshots(abc.ABC):
    """Point-in-time copies inside the pool (`snapshot_support`)."""

    @abc.abstractmethod
    def create_snapshot(self, snapshot: Snapshot) -> str | None:
        """Take it; the provider location, or None. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_snapshot(self, snapshot: Snapshot) -> None:
        """Remove it. Absent is success. Raises `Busy`."""


class ClonesSnapshots(abc.ABC):
    """A new share can start from a snapshot (`create_share_from_snapshot_support`)."""

    @abc.abstractmethod
    def create_from_snapshot(self, instance: ShareInstance, snapshot: Snapshot) -> list[Export]:
        """As `create`, with the snapshot's content; `instance.size_gib` may be larger. Raises `Gone`, `Full`."""


class Reverts(abc.ABC):
    """A share can go back to its newest snapshot (`revert_to_snapshot_support`)."""

    @abc.abstractmethod
    def revert(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> None:
        """Make the share's content the snapshot's, with `rules` applied. Raises `Gone`, `Busy`."""


class MountsSnapshots(abc.ABC):
    """A snapshot can be mounted read-only (`mount_snapshot_support`)."""

    @abc.abstractmethod
    def export_snapshot(self, snapshot: Snapshot) -> list[Export]:
        """Where it can be mounted from."""

    @abc.abstractmethod
    def set_snapshot_access(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> dict[str, AccessOutcome]:
        """As `set_access`, for the snapshot."""


Positive = Annotated[int, msgspec.Meta(ge=1)]
