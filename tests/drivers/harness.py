# SPDX-License-Identifier: Apache-2.0
"""One harness a driver: how the contract tests start it, use a share as its users would, and look behind it.

A new driver gets a class here and a line in HARNESSES; every contract test of its capabilities then runs for it.
"""

import ipaddress
import os
import tempfile
import uuid
from pathlib import Path

import msgspec
import pytest

from abaca.drivers import contract, copying, load, wrappers
from lab import gluster_bed, processes, runs
from tests.drivers import server_files

GIB = 1 << 30


def fresh_id():
    """An id that nothing has yet."""
    return str(uuid.uuid4())


def instance(**more):
    """A share instance with an id of its own."""
    id = fresh_id()
    values = {"id": id, "share_id": id, "project_id": "p", "size_gib": 1, "protocol": "NFS", "pool": ""}
    return contract.ShareInstance(**values | more)


def snapshot(of, **more):
    """A snapshot of an instance, not taken yet."""
    return contract.Snapshot(**{"id": fresh_id(), "instance": of} | more)


def rules(*words):
    """`rules("10.0.0.1 rw", "10.0.1.0/24 ro")`: access rules by ip."""
    pairs = [word.split() for word in words]
    return [contract.AccessRule(id=fresh_id(), type="ip", to=to, level=level) for to, level in pairs]


def subnet(*addresses, **more):
    """A subnet on which a server has these addresses, each with the length of its network: `subnet("10.5.0.1/24")`."""
    interfaces = [ipaddress.ip_interface(address) for address in addresses]
    allocations = [
        contract.Allocation(id=fresh_id(), ip_address=str(one.ip), cidr=str(one.network), ip_version=one.version)
        for one in interfaces
    ]
    cidr = str(interfaces[0].network) if interfaces else None
    return contract.Subnet(**{"id": fresh_id(), "cidr": cidr, "allocations": allocations} | more)


class DummyHarness:
    """The dummy driver over a file of its own."""

    name, marks = "dummy", ()
    handles_share_servers = False
    very_many, come_and_go = 1000, 40  # rules of one share; shares that come and go at once
    can_be_held_up = True
    # A level that lets clients do less than rw, where there is one; and rules that cannot be honoured.
    weaker = "ro"
    odd_rules = (
        contract.AccessRule(id="odd", type="cert", to="client.example.org"),
        contract.AccessRule(id="wrong", type="ip", to="10.0.0.256"),
    )

    @classmethod
    def driver_class(cls) -> type[contract.Driver]:
        """Whose promises are tested."""
        return load.driver_class(cls.name)

    @classmethod
    def is_tested(cls, promise: type) -> bool:
        """Whether the tests of this promise are run."""
        return issubclass(cls.driver_class(), promise)

    def __init__(self):
        self.section = {
            "pool_size_gib": "1000",
            "thin_provisioning": "false",
            "access_types": "ip,user",
            "pool_count": "2",
            "progress_percent": "40",
            "driver_data": "volume:7",
        }
        self.directory = self.place()
        self.driver = None

    def place(self) -> Path:
        """A new directory for the back end's state; `close` takes it away."""
        self._temporary = tempfile.TemporaryDirectory(prefix="abaca-dummy-")
        return Path(self._temporary.name)

    def start(self, **options):
        """A driver over what is already there, as after a restart of the worker."""
        if self.driver is not None:
            self.driver.stop()
        self.driver = self.build(**options)
        self.driver.start()
        return self.driver

    def build(self, **options):
        """A driver that is not started; options go over those of the harness."""
        backend = contract.Backend(
            name="b1",
            host="h@b1",
            share_backend_name="B1",
            state_dir=self.directory,
            max_over_subscription_ratio=2.0,
            driver_handles_share_servers=self.handles_share_servers,
        )
        return load.driver(backend, self.name, self.section | options)

    def instance(self, **more):
        return instance(**more if "pool" in more else {"pool": self.driver.pools()[0].name} | more)

    def rules(self, *words):
        """Access rules of a type that the driver honours, from words such as "10.0.0.1 rw"."""
        return rules(*words)

    def share(self, text="", **more):
        """A share that exists, with this content."""
        instance = self.instance(**more)
        self.driver.create(instance)
        self.write(instance, text)
        return instance

    def known(self, share, **more):
        """The share as it is told once its making has been written down; it is made when it is not."""
        made = self.driver.create(share)
        return self.instance(id=share.id, exports=made.exports, driver_data=made.driver_data or {}, **more)

    # What users do

    def write(self, share, text):
        self.driver.use(share.id, used_gib=0, content=text)

    def fill(self, share, used_gib):
        self.driver.use(share.id, used_gib=used_gib)

    def damage(self, share):
        """The size is wrong; nothing else can break here."""
        self.driver.extend(share, 3)

    # What the back end has, read behind the driver

    def kept(self, kind):
        """All records of a kind by id."""
        return self.driver.contents().get(kind, {})

    def record(self, kind, id):
        """One of them; empty when there is none."""
        return self.kept(kind).get(id, {})

    def held(self):
        """The ids of all instances."""
        return set(self.kept("instance"))

    def read(self, share):
        return self.record("instance", share.id).get("content")

    def size_gib(self, share):
        return self.record("instance", share.id).get("size_gib")

    def clients(self, share):
        """Who may reach it: pairs of network and level."""
        return {(to, level) for _, to, level in self.record("instance", share.id).get("rules", [])}

    def snapshots(self):
        """The ids of all snapshots."""
        return set(self.kept("snapshot"))

    def snapshot_clients(self, taken):
        """Who may reach a snapshot: pairs of network and level."""
        return {(to, level) for _, to, level in self.record("snapshot", taken.id).get("rules", [])}

    def settle(self):
        """What was written counts from here on."""

    def copy(self, source, destination):
        """What a host does between opening and closing two shares that it copies."""
        copying.copy(Path(source.source), Path(destination.source))

    def quiesce_wait_s(self, replica):
        """For how long the promotion that goes on may quiesce."""
        return self.record("promotion", replica.id).get("quiesce_wait_s")

    def groups(self):
        return set(self.kept("group"))

    def backups(self):
        return set(self.kept("backup"))

    def project_id(self, share):
        return self.record("instance", share.id).get("project_id")

    def metadata(self, share):
        return self.record("instance", share.id).get("metadata")

    def servers(self):
        """The addresses of each share server by its id."""
        return {id: record["addresses"] for id, record in self.kept("server").items()}

    def server_of(self, share):
        return self.record("instance", share.id).get("server")

    def subnet_metadata(self, server, subnet):
        return self.record("server", server.id).get("subnets", {}).get(subnet.id)

    def security_services(self, server):
        """The ids of its security services; None without the server."""
        held = self.record("server", server.id).get("security_services")
        return None if held is None else set(held.values())

    def move_exports(self):
        """Restart with another address in all export locations."""
        return self.start(export_ips="127.0.0.2")

    def close(self):
        if self.driver is not None:
            self.driver.stop()
        self._temporary.cleanup()


class DummyEachHarness(DummyHarness):
    """The dummy driver that ensures shares one by one."""

    name = "dummy_each"


class ReplicasHarness(DummyHarness):
    """The dummy driver with replicas of one type, for the tests of replicas alone."""

    replication_type = "dr"

    def __init__(self):
        super().__init__()
        self.section["replication_type"] = self.replication_type

    @classmethod
    def is_tested(cls, promise: type) -> bool:
        return promise is contract.Replicates


class ReadableHarness(ReplicasHarness):
    """Replicas that users may read."""

    replication_type = "readable"


class WritableHarness(ReplicasHarness):
    """Replicas that users may write."""

    replication_type = "writable"


class WrappedHarness(DummyHarness):
    """The dummy driver with everything around it that Abaca puts there."""

    def build(self, **options):
        return wrappers.wrap(
            super().build(**options),
            wrappers.measuring(lambda name, took_s, error: None),
            wrappers.logging_slow("b1"),
        )


class LocalHarness(DummyHarness):
    """Real btrfs and a real NFS-Ganesha, looked at over D-Bus."""

    name, marks = "local", (pytest.mark.system,)
    can_be_held_up = False

    @classmethod
    def is_tested(cls, promise: type) -> bool:
        of_servers = {contract.RunsServers, contract.ManagesServers, contract.UpdatesServerNetworks}
        return super().is_tested(promise) and (cls.handles_share_servers or promise not in of_servers)

    def __init__(self):
        processes.need("ganesha.nfsd", "dbus-daemon", package="nfs-ganesha nfs-ganesha-vfs dbus-daemon")
        processes.need("mkfs.btrfs", package="btrfs-progs")
        super().__init__()
        self.port = processes.free_port()
        self.section = {
            "ganesha_port": str(self.port),
            "pool_size_gib": "5",
            "export_ips": "127.0.0.1,::1",
            "nfs_minor_versions": "0,1,2",
        }

    def place(self) -> Path:
        self.run = runs.Run()
        return self.run.path("b1")

    def mounted(self, share) -> Path:
        """Where the share's own mount is on the host."""
        return self.directory / "shares" / share.id

    def write(self, share, text):
        (self.mounted(share) / "file").write_text(text)

    def read(self, share):
        return (self.mounted(share) / "file").read_text()

    def fill(self, share, used_gib):
        with (self.mounted(share) / "big").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, int(used_gib * GIB) - (1 << 20))

    def move_exports(self):
        return self.start(export_ips="::1,127.0.0.1")

    def settle(self):
        os.sync()

    def size_gib(self, share):
        return round(self.limit_bytes(share) / GIB, 3)

    def limit_bytes(self, share):
        text = processes.command(["btrfs", "qgroup", "show", "--raw", "-re", "-f", str(self.mounted(share))])
        return int(text.splitlines()[-1].split()[3])

    def daemon_directory(self) -> Path:
        """Where the files of the NFS server are that serves the shares of the tests."""
        return self.directory / "ganesha"

    def shown(self, daemon_directory=None):
        """Every live export by its path: the daemon's own answer."""
        with server_files.bus(daemon_directory or self.daemon_directory()) as bus:
            return {path: bus.show(id) for id, path in bus.paths().items()}

    def clients(self, share):
        return self.clients_at(self.mounted(share))

    def snapshot_clients(self, taken):
        return self.clients_at(self.directory / "snapshots" / taken.id)

    def clients_at(self, path):
        shown = self.shown()[str(path)].clients
        return {(network.removesuffix("/32").removesuffix("/128"), level) for network, level in shown}

    def held(self):
        return {path.name for path in (self.directory / "pool" / "shares").iterdir()}

    def snapshots(self):
        return {path.name for path in (self.directory / "pool" / "snapshots").iterdir()}

    def damage(self, share):
        """The export is gone, nothing is mounted, the limit is wrong."""
        with server_files.bus(self.daemon_directory()) as bus:
            bus.remove(next(id for id, path in bus.paths().items() if path == str(self.mounted(share))))
        processes.command(["btrfs", "qgroup", "limit", "3G", str(self.mounted(share))])
        processes.command(["umount", str(self.mounted(share))])

    def probe(self, share, address="127.0.0.1"):
        """What a client at the address sees in the share, None when it may not mount it."""
        place = f"nfs://{address}/shares/{share.mount_point_name or share.id}?version=4&nfsport={self.port}"
        try:
            return processes.command(["nfs-ls", place])
        except processes.LabError:
            return None

    def close(self):
        if self.driver is not None:
            self.driver.stop()
            self.driver.shutdown()
            self.driver = None
        kinds = ("process", "mount", "loop", "interface abb", "interface abv")
        leftovers = [line for line in self.run.leftovers() if line.startswith(kinds)]
        self.run.close()
        assert not leftovers, f"shutdown left {leftovers}"


class LocalServersHarness(LocalHarness):
    """The same with share servers in network namespaces; the shares of the tests are on one of them."""

    handles_share_servers = True

    def __init__(self):
        processes.need("ip", package="iproute2")
        super().__init__()
        self.section = {"pool_size_gib": "5", "nfs_minor_versions": "0,1,2"}
        self.subnets = [subnet("10.9.0.4/24"), subnet("fd77:9::4/64")]
        self.server = contract.ShareServer(id=fresh_id())

    def start(self, **options):
        super().start(**options)
        self.set_up(self.server.id, self.subnets)
        return self.driver

    def set_up(self, id, subnets):
        """A share server that runs, as it is told to the driver."""
        setup = contract.ServerSetup(id=id, share_network_id=fresh_id(), subnets=subnets)
        return contract.ShareServer(id=id, details=self.driver.set_up_server(setup))

    def move_exports(self):
        self.start()
        self.set_up(self.server.id, self.subnets[::-1])
        return self.driver

    def instance(self, **more):
        return super().instance(**{"server": self.server} | more)

    def daemon_directory(self):
        return self.server_directory(self.server.id)

    def server_directory(self, id) -> Path:
        return server_files.directory_of(self.directory / "servers", id)

    def servers(self):
        return server_files.addresses(self.directory / "servers")

    def server_of(self, share):
        path = str(self.mounted(share))
        places = server_files.running(self.directory / "servers")
        return next((id for id, place in places.items() if path in self.shown(place)), None)


class GlusterfsHarness(DummyHarness):
    """The GlusterFS driver over REST and SSH, with doubles of Heketi and of its nodes at the other ends."""

    name = "glusterfs"
    weaker, very_many = "rw", 250
    odd_rules = (
        contract.AccessRule(id="odd", type="ip", to="10.0.0.9"),
        contract.AccessRule(id="wrong", type="cert", to="*"),
    )

    def __init__(self):
        super().__init__()
        self.bed = gluster_bed.Bed(self.directory / "bed")
        self.section = self.bed.section() | {"snapshots_per_share": "2"}

    def rules(self, *words):
        return [msgspec.structs.replace(rule, type="cert") for rule in rules(*words)]

    def instance(self, **more):
        return super().instance(**{"protocol": "GLUSTERFS"} | more)

    def volume(self, share) -> gluster_bed.Volume:
        return self.bed.held()[share.id]

    def write(self, share, text):
        self.volume(share).content = text

    def read(self, share):
        return self.volume(share).content

    def fill(self, share, used_gib):
        self.volume(self.used(share)).used_bytes = used_gib * GIB

    def options_of(self, share):
        """What is set of its volume."""
        return self.volume(share).options

    def used(self, share):
        """The share, which lets nobody in by now and did once: a new one has no limit before."""
        if self.options_of(share).get("user.abaca.limit") == "later":
            for rules in (self.rules("10.0.0.77 rw"), []):
                self.driver.set_access(share, rules)
        return share

    def damage(self, share):
        """It is open to all, stopped, and its limit is wrong."""
        volume = self.volume(self.used(share))
        volume.options |= {"client.ssl": "off"}
        volume.limit_bytes, volume.is_started = 3 * GIB, False

    def held(self):
        return set(self.bed.held())

    def snapshots(self):
        return self.bed.snapshots()

    def size_gib(self, share):
        return self.volume(self.used(share)).limit_bytes / GIB

    def clients(self, share):
        allowed = self.volume(share).options["auth.ssl-allow"].split(",")
        return {(name, "rw") for name in allowed if not name.startswith("abaca-node-")}

    def close(self):
        self.driver.stop()
        self.bed.close()
        self._temporary.cleanup()


HARNESSES = {
    "dummy": DummyHarness,
    "dummy_each": DummyEachHarness,
    "dummy_readable": ReadableHarness,
    "dummy_writable": WritableHarness,
    "glusterfs": GlusterfsHarness,
    "wrapped": WrappedHarness,
    "local": LocalHarness,
    "local_servers": LocalServersHarness,
}
