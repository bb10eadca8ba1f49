# SPDX-License-Identifier: Apache-2.0
"""Somebody whom no volume of GlusterFS may let in, and who tries all of them meanwhile."""

import contextlib
import threading

from lab import gluster_cluster, gluster_machines, processes

PLACE = "/mnt/share"
SHOWN_S = 600


class Stranger:
    """Somebody with a certificate of another authority, who tries all volumes all the time, with it and without TLS."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.tried, self.reached = set(), []
        self._ended = threading.Event()

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
        thread = threading.Thread(target=self._go_on)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _go_on(self):
        while not self._ended.is_set():
            for name in self.cluster.volumes():
                for way in (self.with_its_certificate, self.without_tls):
                    self.tried.add((way.__name__, name))
                    if way(name):
                        self.reached.append((way.__name__, name))

    def with_its_certificate(self, name):
        """Whether it sees the volume."""
        mounted = self.machine.mount(f"{self.cluster.nodes[0].ipv4}:/{name}", PLACE)
        return mounted.code == 0 and self._sees()

    def without_tls(self, name):
        """Whether it sees the volume by what gluster tells clients of it, but for the order to use TLS."""
        file = f"/var/lib/glusterd/vols/{name}/{name}.tcp-fuse.vol"
        told = self.cluster.nodes[0].script(f"cat {file}").stdout
        plain = "\n".join(line for line in told.splitlines() if "ssl" not in line)
        self.machine.script(
            f"mkdir -p {PLACE}; cat > /run/plain.vol <<'END'\n{plain}\nEND\nglusterfs -f /run/plain.vol {PLACE}",
            SHOWN_S,
        )
        return self._sees()

    def _sees(self):
        try:
            seen = f"grep -q ' {PLACE} fuse' /proc/mounts && timeout -s KILL 10 ls {PLACE}/. || exit 1"
            return self.machine.script(seen, SHOWN_S).code == 0
        finally:
            self.machine.unmount(PLACE)
