# SPDX-License-Identifier: Apache-2.0
"""An Abaca that tells a receiver: the API in this process, workers as processes that may be killed."""

import contextlib
import subprocess
import sys

from tests.api.world import NEWEST, world
from tests.conftest import wait_until

SECRET = "correct horse battery staple"
MORE = """
[worker]
lease_s = 2
name = {name}
[events]
webhooks = audit
log = true
longest_pause_s = 0.1
[webhook_audit]
url = {url}
secret_file = {directory}/secret
{more}
"""


class House:
    """One installation; `ask` is a member's request, `work` starts a worker."""

    def __init__(self, place, receiver, stack, more=""):
        self.directory = place.directory
        (self.directory / "secret").write_text(SECRET + "\n")
        connection = f"[database]\nconnection = {place.url}\n" if not place.is_sqlite else ""
        more = MORE.format(url=receiver.url, directory=self.directory, more=more, name="one") + connection
        self.world = stack.enter_context(world(self.directory, worker=False, more=more))
        self.db = self.world.db
        self.receiver = receiver
        self._workers = []
        stack.callback(self.end)
        kind = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}
        self.ask("POST", "/types", {"share_type": kind}, who="admin")

    def ask(self, method, path, body=None, who="member"):
        answer = self.world.ask(who, method, path, body, **{"x-openstack-manila-api-version": NEWEST})
        assert answer.status < 300, answer
        return answer.body

    def share(self, size=1):
        return self.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": size}})["share"]["id"]

    def status(self, share_id):
        return self.ask("GET", f"/shares/{share_id}")["share"]["status"]

    def until_available(self, share_id):
        wait_until(lambda: self.status(share_id) == "available")
        return share_id

    def act(self, share_id, **action):
        return self.ask("POST", f"/shares/{share_id}/action", action)

    def work(self):
        config = self.directory / "abaca.conf"
        with (self.directory / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "abaca", "worker", "--config-file", str(config)], stdout=log, stderr=log
            )
        self._workers.append(process)
        wait_until(lambda: process.poll() is not None or self.world.number("SELECT count(*) FROM pools"))
        assert process.poll() is None, self.log
        return process

    @property
    def log(self):
        return (self.directory / "worker.log").read_text()

    def command(self, *words):
        config = self.directory / "abaca.conf"
        argv = [sys.executable, "-m", "abaca", *words, "--config-file", str(config)]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout

    def kill(self, process):
        process.kill()
        process.wait(60)

    def end(self):
        for process in self._workers:
            with contextlib.suppress(ProcessLookupError):
                self.kill(process)
