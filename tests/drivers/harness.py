# SPDX-License-Identifier: Apache-2.0
"""One harness a driver: how the contract tests start it, use a share as its users would, and look behind it.

A new driver gets a class here and a line in HARNESSES; every contract test of its capabilities then runs for it.
"""

import os
import tempfile
import uuid
from pathlib import Path

import pytest

from abaca.drivers import contract, load, wrappers
from abaca.drivers.exports.bus import Bus
from lab import processes, runs

GIB = 1 << 30


def instance(**more):
    """A share instance with an id of its own."""
    id = str(uuid.uuid4())
    values = {"id": id, "share_id": id, "project_id": "p", "size_gib": 1, "protocol": "NFS", "pool": ""}
    return contract.ShareInstance(**values | more)


def snapshot(of, **more):
    """A snapshot of an instance, not taken yet."""
    return contract.Snapshot(**{"id": str(uuid.uuid4()), "instance": of} | more)


def rules(*words):
    """`rules("10.0.0.1 rw", "10.0.1.0/24 ro")`: access rules by ip."""
    pairs = [word.split() for word in words]
    return [contract.AccessRule(id=str(uuid.uuid4()), type="ip", to=to, level=level) for to, level in pairs]


class DummyHarness:
    """The dummy driver over a file of its own."""

    name, marks = "dummy", ()

    def __init__(self):
        self.section = {
            "pool_size_gib": "1000",
            "thin_provisioning": "false",
            "access_types": "ip,user",
            "pool_count": "2",
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
        )
        return load.driver(backend, self.name, self.section | options)

    def instance(self, **more):
        return instance(**more if "pool" in more else {"pool": self.driver.pools()[0].name} | more)

    def write(self, share, text):
        self.driver.use(share.id, used_gib=0, content=text)

    def read(self, share):
        return self.driver.contents()["instance"][share.id]["content"]

    def fill(self, share, used_gib):
        self.driver.use(share.id, used_gib=used_gib)

    def size_gib(self, share):
        return self.driver.contents()["instance"][share.id]["size_gib"]

    def clients(self, share):
        """Who may reach it, as the back end has it: pairs of network and level."""
        return {(to, level) for _, to, level in self.driver.contents()["instance"][share.id]["rules"]}

    def held(self):
        """The ids of all instances that the back end has."""
        return set(self.driver.contents().get("instance", {}))

    def damage(self, share):
        """The size is wrong; nothing else can break here."""
        self.driver.extend(share, 3)

    def close(self):
        if self.driver is not None:
            self.driver.stop()
        self._temporary.cleanup()


class DummyEachHarness(DummyHarness):
    """The dummy driver that ensures shares one by one."""

    name = "dummy_each"


class WrappedHarness(DummyHarness):
    """The dummy driver with everything around it that Abaca puts there."""

    def build(self, **options):
        return wrappers.wrap(
            super().build(**options),
            wrappers.measuring(lambda name, took_s, error: None),
            wrappers.logging_slow("b1"),
            wrappers.bounding(8),
            wrappers.retrying(first_delay_s=0.001),
        )


class LocalHarness(DummyHarness):
    """Real btrfs and a real NFS-Ganesha, looked at over D-Bus."""

    name, marks = "local", (pytest.mark.system,)

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

    def size_gib(self, share):
        return round(self.limit_bytes(share) / GIB, 3)

    def limit_bytes(self, share):
        text = processes.command(["btrfs", "qgroup", "show", "--raw", "-re", "-f", str(self.mounted(share))])
        return int(text.splitlines()[-1].split()[3])

    def shown(self):
        """Every live export by its path: the daemon's own answer."""
        bus = Bus(self.directory / "ganesha" / "bus.sock")
        try:
            return {path: bus.show(id) for id, path in bus.paths().items()}
        finally:
            bus.close()

    def clients(self, share):
        shown = self.shown()[str(self.mounted(share))].clients
        return {(network.removesuffix("/32").removesuffix("/128"), level) for network, level in shown}

    def held(self):
        return {path.name for path in (self.directory / "pool" / "shares").iterdir()}

    def damage(self, share):
        """The export is gone, nothing is mounted, the limit is wrong."""
        bus = Bus(self.directory / "ganesha" / "bus.sock")
        bus.remove(next(id for id, path in bus.paths().items() if path == str(self.mounted(share))))
        bus.close()
        processes.command(["btrfs", "qgroup", "limit", "3G", str(self.mounted(share))])
        processes.command(["umount", str(self.mounted(share))])

    def probe(self, share, address="127.0.0.1"):
        """What a client at the address sees in the share, None when it may not mount it."""
        place = f"nfs://{address}/shares/{share.mount_point_name or share.id}?version=4&nfsport={self.port}"
        try:
            return processes.command(["nfs-ls", place], timeout_s=20.0)
        except processes.LabError:
            return None

    def close(self):
        if self.driver is not None:
            self.driver.stop()
            self.driver.shutdown()
            self.driver = None
        leftovers = [line for line in self.run.leftovers() if line.startswith(("process", "mount", "loop"))]
        self.run.close()
        assert not leftovers, f"shutdown left {leftovers}"


HARNESSES = {"dummy": DummyHarness, "dummy_each": DummyEachHarness, "wrapped": WrappedHarness, "local": LocalHarness}
