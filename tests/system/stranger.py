# SPDX-License-Identifier: Apache-2.0
"""Somebody whom no volume of GlusterFS may let in, and who tries all of them meanwhile; one that lets in anybody."""

import collections
import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from lab import gluster_cluster, gluster_machines, processes
from tests.conftest import wait_until

PLACE = "/mnt/share"
SHOWN_S = 600


class Stranger:
    """Somebody with a certificate of another authority, who tries all volumes all the time, with it and without TLS.

    Each try belongs to the phase in which it begins, that of `during` or `tries`.
    """

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.reached = []
        self._ended, self._turn = threading.Event(), threading.Lock()
        self._phase = self._trying_in = ""
        self._refused = collections.Counter()

    def __enter__(self):
        self.machine = gluster_machines.GlusterClient(self.cluster.network, self.name).start()
        request = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=alice", "-days", "2"]
        files = {end: self.machine.ssl / f"glusterfs.{end}" for end in ("key", "pem", "ca")}
        processes.command(["openssl", "req", *request, "-keyout", str(files["key"]), "-out", str(files["pem"])])
        gluster_cluster.seal(self.machine, files["pem"].read_text(), files["pem"].read_text())
        return self

    def __exit__(self, *_exception):
        self.machine.stop()

    @contextlib.contextmanager
    def trying(self):
        """Tries all volumes meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            self._work = pool.submit(self._go_on)
            try:
                yield
            finally:
                self._ended.set()
            self._work.result()

    @contextlib.contextmanager
    def during(self, phase):
        """Meanwhile it tries at least once, and is refused; a try that has not ended by the end is waited for."""
        with self._turn:
            self._phase = phase
        try:
            yield
        finally:
            with self._turn:
                self._phase = ""
        wait_until(lambda: self._trying_in != phase or self._work.done(), SHOWN_S)
        assert any(self._tries_in(phase)), f"nobody has tried anything in the phase: {phase}"
        assert self.reached == []

    def tries(self, phase):
        """It has tried both ways since this was called, and was refused."""
        with self.during(phase):
            wait_until(lambda: all(self._tries_in(phase)) or self._work.done(), SHOWN_S)
        assert all(self._tries_in(phase))

    def _tries_in(self, phase):
        return [self._refused[phase, way.__name__] for way in (self.with_its_certificate, self.without_tls)]

    def _go_on(self):
        while not self._ended.is_set():
            for name in self.cluster.volumes():
                for way in (self.with_its_certificate, self.without_tls):
                    self._try(name, way)

    def _try(self, name, way):
        with self._turn:
            phase = self._trying_in = self._phase
        if way(name):
            self.reached.append((phase, way.__name__, name))
        else:
            self._refused[phase, way.__name__] += 1
        self._trying_in = ""

    def with_its_certificate(self, name):
        """Whether it sees the volume."""
        mounted = self.machine.mount(f"{self.cluster.nodes[0].ipv4}:/{name}", PLACE)
        return self._sees(mounted)

    def without_tls(self, name):
        """Whether it sees the volume by what gluster tells clients of it, but for the order to use TLS."""
        file = f"/var/lib/glusterd/vols/{name}/{name}.tcp-fuse.vol"
        told = self.cluster.nodes[0].script(f"cat {file}").stdout
        plain = "\n".join(line for line in told.splitlines() if "ssl" not in line)
        self.machine.script(f"cat > /run/plain.vol <<'END'\n{plain}\nEND", SHOWN_S)
        return self._sees(self.machine.mount_by(f"glusterfs -f /run/plain.vol {PLACE}", PLACE))

    def _sees(self, mounted):
        try:
            return mounted.code == 0 and self.machine.reads(PLACE)
        finally:
            self.machine.unmount(PLACE)


@contextlib.contextmanager
def an_open_volume(cluster):
    """The name of a volume that anybody reaches meanwhile."""
    node = cluster.nodes[0]

    def come_to(state, *words):
        """What Heketi does at the same moment has the nodes' lock, and a command that ends too late has its effect."""
        done = node.run(["gluster", "--mode=script", "volume", *words], SHOWN_S)
        info = node.run(["gluster", "--mode=script", "volume", "info", "open"], SHOWN_S)
        sys.stderr.write(f"{words}: {done}\n")
        return f"Status: {state}" in info.stdout

    wait_until(lambda: come_to("Created", "create", "open", f"{node.ipv4}:/var/lib/heketi/open", "force"), every_s=1)
    try:
        wait_until(lambda: come_to("Started", "start", "open", "force"), every_s=1)
        yield "open"
    finally:
        wait_until(lambda: come_to("Stopped", "stop", "open", "force"), every_s=1)
        node.gluster("volume", "delete", "open")
