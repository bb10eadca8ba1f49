# SPDX-License-Identifier: Apache-2.0
"""Every core option: one frozen tree, read once at start and passed down.

A field of `Settings` is an option of `[DEFAULT]`, or a whole section when its type is a struct. To add an option, add a
field with its sentence here, or to its section in servers.py, networks.py or events.py, and run `make golden`: reading,
refusing misspelt names and the reference page follow. Options that Manila has too keep Manila's names. What only one
driver understands lives in that driver's `Options`.
"""

from __future__ import annotations

import socket
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import field

from abaca.settings.events import Events, OsloMessagingNotifications, Webhook
from abaca.settings.networks import DeclaredSubnet, Networks
from abaca.settings.options import LONG_S, AnyPort, Name, Names, Port, Section, Threads, Url, said, secret
from abaca.settings.servers import Compute, Nodes

# The service manager kills who has not ended by then: TimeoutStopSec of the shipped units is longer than this.
LONGEST_STOP_S = 60
Filter = Literal[
    "OnlyHostFilter",
    "AvailabilityZoneFilter",
    "CapacityFilter",
    "CapabilitiesFilter",
    "DriverFilter",
    "ShareReplicationFilter",
    "CreateFromSnapshotFilter",
    "AffinityFilter",
    "AntiAffinityFilter",
    "IgnoreAttemptedHostsFilter",
]
Weigher = Literal["CapacityWeigher", "GoodnessWeigher", "HostAffinityWeigher"]


class Database(Section, frozen=True):
    """The database."""

    connection: Annotated[
        str | None,
        secret("SQLAlchemy URL: `postgresql://...` at scale. Unset: SQLite in `state_path`, for one host only."),
    ] = None
    max_pool_size: Annotated[
        int,
        said("Connections kept open in each of a process's pools (looking, writing; a worker's: taking work).", ge=1),
    ] = 8
    look_limit_s: Annotated[
        float, said("Seconds after which a statement is stopped by which a request looks; it is answered 503.", ge=0.1)
    ] = 20.0
    change_limit_s: Annotated[
        float,
        said("The same of a request that changes something, with what it waits there for others.", ge=0.1),
    ] = 30.0


class OsloPolicy(Section, frozen=True):
    """Who may do what, beyond the defaults that stand beside each route."""

    policy_file: Annotated[
        str, said("File of the rules that the operator changed; a relative path starts at the configuration file.")
    ] = "policy.yaml"
    policy_dirs: Annotated[Names, said("Directories with more such files.")] = ()
    enforce_scope: Annotated[
        bool, said("Take tokens of a project only. Off: administrators may come with a token of the whole system, too.")
    ] = True
    enforce_new_defaults: Annotated[bool, said("Use the defaults with the reader and member roles.")] = True


class OsloMiddleware(Section, frozen=True):
    """What stands before the API."""

    enable_proxy_headers_parsing: Annotated[
        bool, said("Believe `X-Forwarded-*` headers when links are made; only behind a proxy that sets them.")
    ] = False
    max_request_body_size: Annotated[int, said("Bytes; a larger request body is refused.", ge=1024)] = 114688


class Quota(Section, frozen=True):
    """Default quotas of a project; -1 means unlimited. The API sets others for classes, projects, users and types."""

    shares: Annotated[int, said("Shares.", ge=-1)] = 50
    snapshots: Annotated[int, said("Snapshots.", ge=-1)] = 50
    gigabytes: Annotated[int, said("GiB of all shares together.", ge=-1)] = 1000
    per_share_gigabytes: Annotated[int, said("GiB of one share.", ge=-1)] = -1
    snapshot_gigabytes: Annotated[int, said("GiB of all snapshots together.", ge=-1)] = 1000
    share_networks: Annotated[int, said("Share networks.", ge=-1)] = 10
    share_groups: Annotated[int, said("Share groups.", ge=-1)] = 50
    share_group_snapshots: Annotated[int, said("Share group snapshots.", ge=-1)] = 50
    share_replicas: Annotated[int, said("Share replicas.", ge=-1)] = 100
    replica_gigabytes: Annotated[int, said("GiB of all replicas together.", ge=-1)] = 1000
    backups: Annotated[int, said("Share backups.", ge=-1)] = 10
    backup_gigabytes: Annotated[int, said("GiB of all backups together.", ge=-1)] = 1000
    encryption_keys: Annotated[int, said("Encryption keys in use.", ge=-1)] = 100

    @property
    def limits(self) -> dict[str, int]:
        """All of them, by the name of what they limit."""
        return msgspec.structs.asdict(self)


class Limits(Section, frozen=True):
    """What is bounded beside quotas; -1 means unlimited."""

    metadata_items: Annotated[
        int, said("Metadata pairs of one share, snapshot, access rule, export location, subnet or server.", ge=-1)
    ] = 128
    metadata_characters: Annotated[int, said("Characters of the keys and values of these pairs.", ge=-1)] = 16384
    project_metadata_characters: Annotated[
        int,
        said(
            "Characters of the metadata of all shares, snapshots, access rules and export locations of a project.",
            ge=-1,
        ),
    ] = 4194304
    network_subnets: Annotated[int, said("Subnets of one share network.", ge=-1)] = 100


class Api(Section, frozen=True):
    """The API processes."""

    threads: Annotated[
        Threads | None, said("Threads that answer requests in each process. Unset: 2 on SQLite, 8 on PostgreSQL.")
    ] = None
    backlog: Annotated[int, said("Connections that may wait to be accepted.", ge=1)] = 1024
    connections: Annotated[
        int, said("Connections at once in each process; further ones wait to be accepted.", ge=1)
    ] = 1024
    waiting: Annotated[
        int, said("Requests that may wait for a thread in each process; further ones are answered 503.", ge=1)
    ] = 1000
    head_timeout_s: Annotated[
        float,
        said("Seconds in which the head of a request must have come; then the connection is closed.", ge=0.1, le=3600),
    ] = 30
    body_timeout_s: Annotated[
        float, said("Seconds in which its body must have come; then the answer is 408.", ge=0.1, le=3600)
    ] = 10
    hosts: Annotated[
        Names,
        said("Names under which an API without authentication is asked for, beside those of the loopback addresses."),
    ] = ()
    metrics: Annotated[bool, said("Serve `/metrics` without a token.")] = True
    remember_tokens_s: Annotated[
        float,
        said(
            "Seconds that a Keystone token is taken unasked, and so long a revoked one works. 0: ask each time.",
            ge=0,
            le=3600,
        ),
    ] = 60


class Worker(Section, frozen=True):
    """The worker processes, which carry operations out."""

    name: Annotated[
        Name | None,
        said(
            "Who holds the leases: a worker that comes back under its name takes its work back at once. Unset: `host`."
        ),
    ] = None
    concurrency: Annotated[int, said("Operations at once on each back end.", ge=1, le=1024)] = 8
    lease_s: Annotated[float, said("Seconds after which the work of a silent worker is taken by another.", ge=1)] = 30
    poll_s: Annotated[
        float, said("Seconds between looks at the journal when nothing announces work; wake-ups come at once.", ge=0.05)
    ] = 5
    stop_s: Annotated[
        float,
        said("Seconds that running steps are given to end when the worker is stopped.", ge=0, le=LONGEST_STOP_S),
    ] = 10
    ensure_page: Annotated[
        int, said("Shares that are ensured together; only these show `ensuring` at a time.", ge=1, le=5000)
    ] = 100
    ensure_threads: Annotated[
        Threads, said("Shares of a page that are ensured at once where the driver takes them one by one.")
    ] = 8
    reconcile_percent: Annotated[
        float,
        said(
            "How much of one thread's time comparing a back end with the database may take, in percent; 0: never done.",
            ge=0,
            le=100,
        ),
    ] = 1
    reconcile_every_s: Annotated[
        float, said("Seconds at least from the beginning of one comparison of a back end to the next.", ge=1, le=LONG_S)
    ] = 600
    keep_operations_s: Annotated[
        float,
        said(
            "Seconds that the history of ended operations is kept, and what a check of a share network's change has "
            "said.",
            ge=60,
            le=LONG_S,
        ),
    ] = 604800
    keep_export_locations_s: Annotated[
        float, said("Seconds that export locations which have ended stay in the history.", ge=60, le=LONG_S)
    ] = 31536000
    metrics_listen: Annotated[str, said("Address of the worker's own `/metrics`.")] = "127.0.0.1"
    metrics_port: Annotated[AnyPort | None, said("Port of the worker's own `/metrics`. Unset: none is served.")] = None


class Backend(Section, frozen=True):
    """One section for each name in `enabled_share_backends`; the driver's own options stand in the same section."""

    name: Annotated[str, said("", extra={"internal": True})]
    driver: Annotated[str, said("Driver: a name under `abaca.drivers`, or that of an installed entry point.")]
    share_backend_name: Annotated[str, said("What share types ask for with `share_backend_name`. Unset: the section.")]
    backend_availability_zone: Annotated[
        str, said("Availability zone of the back end. Unset: `storage_availability_zone`.")
    ]
    driver_handles_share_servers: Annotated[
        bool, said("Whether the driver makes share servers in the users' share networks.")
    ] = False
    reserved_share_percentage: Annotated[
        int, said("Part of a pool's capacity that new shares may not take, in percent.", ge=0, le=100)
    ] = 0
    reserved_share_from_snapshot_percentage: Annotated[
        int, said("The same for shares made from snapshots.", ge=0, le=100)
    ] = 0
    reserved_share_extend_percentage: Annotated[int, said("The same for extending shares.", ge=0, le=100)] = 0
    max_over_subscription_ratio: Annotated[
        float, said("How far thin pools may be promised beyond their capacity.", ge=1.0)
    ] = 20.0
    max_shares_per_share_server: Annotated[
        int, said("Most shares on one share server; a further one gets another server. -1: any number.", ge=-1)
    ] = -1
    max_share_server_size: Annotated[
        int, said("Most GiB of shares on one share server, in the same way. -1: any number.", ge=-1)
    ] = -1
    concurrency: Annotated[Threads | None, said("Operations at once on this back end. Unset: that of `[worker]`.")] = (
        None
    )
    options: Annotated[Mapping[str, str], said("", extra={"internal": True})] = field(default_factory=dict)


class Settings(Section, frozen=True):
    """The options of `[DEFAULT]`."""

    host: Annotated[
        str, said("Name of this host in services and pools. Unset: the host's own name.", pattern=r"^[^@#\s/]{1,255}$")
    ] = field(default_factory=socket.gethostname)
    state_path: Annotated[Path, said("Directory for everything that outlives the process; absolute.")] = Path(
        "/var/lib/abaca"
    )
    drivers_path: Annotated[
        Path | None,
        said(
            "Directory for what drivers keep; absolute. Where a worker is root, root's alone. Unset: in `state_path`."
        ),
    ] = None
    enabled_share_backends: Annotated[Names, said("The back ends that workers serve; each is a section.")] = ("dummy",)
    enabled_share_protocols: Annotated[Names, said("Share protocols that users may ask for.")] = ("NFS", "CIFS")
    storage_availability_zone: Annotated[str, said("Availability zone where nothing else says one.")] = "nova"
    default_share_type: Annotated[str | None, said("Share type of shares that are created without one.")] = None
    default_share_group_type: Annotated[str | None, said("The share group type that users are shown as usual.")] = None

    auth_strategy: Annotated[
        Literal["keystone", "http_basic", "none"],
        said("How callers are known. `none` makes everybody an administrator: on the loopback address only."),
    ] = "none"
    http_basic_auth_user_file: Annotated[Path, said("Users, for `http_basic`.")] = Path("/etc/abaca/htpasswd")
    osapi_share_listen: Annotated[str, said("Address that the API listens on.")] = "127.0.0.1"
    osapi_share_listen_port: Annotated[Port, said("Its port.")] = 8786
    osapi_share_workers: Annotated[int, said("API processes.", ge=1, le=256)] = 1
    osapi_share_base_url: Annotated[
        Url | None, said("Start of the links in answers when the API stands behind a proxy.")
    ] = field(default=None, name="osapi_share_base_URL")
    osapi_max_limit: Annotated[int, said("Longest page of a list.", ge=1)] = 1000
    project_id_regex: Annotated[str, said("What a project id in a URL looks like.")] = r"[0-9a-f\-]+"

    scheduler_default_filters: Annotated[
        tuple[Filter, ...], said("Filters that a pool must pass to be given a share, in this order.")
    ] = typing.get_args(Filter)[:9]
    scheduler_default_extend_filters: Annotated[
        tuple[Filter, ...], said("The same for a share that is extended where it is.")
    ] = ("CapacityFilter", "DriverFilter")
    scheduler_default_weighers: Annotated[tuple[Weigher, ...], said("Weighers that rank the pools that are left.")] = (
        typing.get_args(Weigher)
    )
    capacity_weight_multiplier: Annotated[
        float, said("What free capacity counts for beside the other weighers; negative: the fullest pool first.")
    ] = 1.0
    goodness_weight_multiplier: Annotated[float, said("What the back ends' `goodness_function` counts for.")] = 1.0
    host_affinity_weight_multiplier: Annotated[
        float, said("What it counts for that a share made from a snapshot lies near the snapshot.")
    ] = 1.0

    report_interval: Annotated[int, said("Seconds between the heartbeats of a worker.", ge=1)] = 10
    service_down_time: Annotated[int, said("Seconds without a heartbeat after which a service is down.", ge=1)] = 60
    message_ttl: Annotated[int, said("Seconds that user messages are kept.", ge=1, le=LONG_S)] = 2592000
    update_shares_status_on_ensure: Annotated[bool, said("Show `ensuring` on shares while they are ensured.")] = True
    soft_deleted_share_retention_time: Annotated[
        int, said("Seconds a share stays in the recycle bin.", ge=1, le=LONG_S)
    ] = 604800
    check_for_expired_shares_in_recycle_bin_interval: Annotated[
        int, said("Seconds between looks for shares whose time there is over.", ge=1)
    ] = 60
    automatic_share_server_cleanup: Annotated[
        bool, said("Delete share servers that no share has used for `unused_share_server_cleanup_interval`.")
    ] = True
    unused_share_server_cleanup_interval: Annotated[
        int, said("Minutes without a share after which a share server is deleted.", ge=1, le=LONG_S // 60)
    ] = 10
    transfer_retention_time: Annotated[int, said("Seconds that a share transfer waits to be accepted.", ge=1)] = 300
    admin_only_metadata: Annotated[Names, said("Keys of share metadata that only administrators see and change.")] = (
        "__affinity_same_host",
        "__affinity_different_host",
    )
    admin_only_el_metadata: Annotated[Names, said("The same for metadata of export locations.")] = ("preferred",)
    driver_updatable_metadata: Annotated[Names, said("Keys of share metadata that are handed to the driver.")] = ()
    driver_updatable_subnet_metadata: Annotated[
        Names, said("Keys of metadata of subnets of which share servers hear when they change.")
    ] = ()

    debug: Annotated[bool, said("Log debugging lines too.")] = False
    log_file: Annotated[Path | None, said("File to log to. Unset: standard error.")] = None
    tracing: Annotated[
        bool, said("Make OpenTelemetry spans; start the programs with `opentelemetry-instrument` to send them.")
    ] = False
    use_json: Annotated[bool, said("Log each line as one JSON object.")] = False

    database: Database = field(default_factory=Database)
    api: Api = field(default_factory=Api)
    worker: Worker = field(default_factory=Worker)
    compute: Compute = field(default_factory=Compute)
    nodes: Nodes = field(default_factory=Nodes)
    networks: Networks = field(default_factory=Networks)
    quota: Quota = field(default_factory=Quota)
    limits: Limits = field(default_factory=Limits)
    oslo_policy: OsloPolicy = field(default_factory=OsloPolicy)
    oslo_middleware: OsloMiddleware = field(default_factory=OsloMiddleware)
    keystone_authtoken: Annotated[
        Mapping[str, str], said("Handed to keystonemiddleware as it stands; its own documentation names the options.")
    ] = field(default_factory=dict)
    backends: tuple[Backend, ...] = ()
    events: Events = field(default_factory=Events)
    oslo_messaging_notifications: OsloMessagingNotifications = field(default_factory=OsloMessagingNotifications)
    receivers: tuple[Webhook, ...] = ()
    declared_subnets: tuple[DeclaredSubnet, ...] = ()
    config_dir: Annotated[Path | None, said("", extra={"internal": True})] = None

    @property
    def database_url(self) -> str:
        """Where the data is: the configured connection, or SQLite under the state directory."""
        return self.database.connection or f"sqlite:///{self.state_path / 'abaca.sqlite'}"

    @property
    def uses_sqlite(self) -> bool:
        """Whether the database is a file of this host."""
        return self.database_url.startswith("sqlite")

    @property
    def backends_path(self) -> Path:
        """Where drivers keep what they need, each back end in a directory of its own."""
        return self.drivers_path or self.state_path / "backends"

    @property
    def sqlite_file(self) -> Path:
        """Where SQLite's data are."""
        return Path(self.database_url.partition(":///")[2])

    @property
    def worker_name(self) -> str:
        """Who holds this host's leases."""
        return self.worker.name or self.host

    @property
    def ensure_manner(self) -> dict[str, Any]:
        """How the shares of a back end are ensured: `shows_status`, `page_size`, `threads`."""
        return {
            "shows_status": self.update_shares_status_on_ensure,
            "page_size": self.worker.ensure_page,
            "threads": self.worker.ensure_threads,
        }

    @property
    def reconcile_pace(self) -> dict[str, float | int]:
        """How back ends are compared with the database: `percent`, `page_size`."""
        return {"percent": self.worker.reconcile_percent, "page_size": self.worker.ensure_page}

    @property
    def event_targets(self) -> dict[str, Names]:
        """Who is told of events, and of which types."""
        messaging = self.oslo_messaging_notifications
        return {
            **({"log": ("*",)} if self.events.log else {}),
            **{f"webhook_{webhook.name}": webhook.event_types for webhook in self.receivers},
            **({"messaging": messaging.event_types} if messaging.driver else {}),
        }

    @property
    def api_threads(self) -> int:
        """Threads that answer requests in one API process; more than 2 only cost CPU on SQLite."""
        return self.api.threads or (2 if self.uses_sqlite else 8)

    @property
    def policy_file(self) -> Path:
        """The policy file; it need not exist."""
        return (self.config_dir or Path("/etc/abaca")) / self.oslo_policy.policy_file

    def changed(self, **fields: object) -> Settings:
        """A copy with other values for some fields of `[DEFAULT]`."""
        return msgspec.structs.replace(self, **fields)
