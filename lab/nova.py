# SPDX-License-Identifier: Apache-2.0
"""A real Nova on loopback: its API over databases of its own, with the lab's Keystone for logins.

Nothing is made or scheduled there: `plant` puts in the rows of a server that others would have left. Without a
hypervisor no server changes by itself, and hosts stay up without a word for a day. Shares that are attached are allowed
by Nova's own code, at the service of the catalog, and mounted nowhere. Nova is set to refuse its own
answers when they are not of the form that it documents, so that rows which no Nova would have are noticed. Starting
takes about five seconds, most of them Nova's own imports.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Self

from lab import keystone, openstack, processes, runs

_HOST = "127.0.0.1"
# From where its compute hosts mount shares.
STORAGE_IP = "10.20.30.40"
# The one of them on which shares are allowed and denied as a compute host does.
COMPUTE_HOST = "lab"
_CONFIGURATION = """[DEFAULT]
log_file = {home}/nova.log
state_path = {home}
host = {host}
transport_url = fake://
service_down_time = 86400
my_shared_fs_storage_ip = {storage_ip}
[api]
response_validation = error
max_limit = {most}
[database]
connection = sqlite:///{home}/nova.db
max_retries = 1
retry_interval = 1
[api_database]
connection = sqlite:///{home}/nova_api.db
[oslo_concurrency]
lock_path = {home}/locks
[neutron]
endpoint_override = {address}/lab/network
{credentials}
[placement]
endpoint_override = {address}/lab/placement
{credentials}
[service_user]
{credentials}
[manila]
{manila}
[keystone_authtoken]
{validation}
token_cache_time = 1
"""


class Nova:
    """A Nova at `url`, known before it starts, so that the Keystone given to `start` can name it.

    A list has `most` servers on a page, whoever asks for more.
    """

    def __init__(self, run: runs.Run, most: int = 1000) -> None:
        self._run = run
        self._most = most
        self._process: processes.Process | None = None
        self.port = processes.free_port(_HOST)
        self.address = f"http://{_HOST}:{self.port}"
        self.url = f"{self.address}/v2.1"
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self, cloud: keystone.Keystone, timeout_s: float = 90.0) -> Self:
        """Return when requests are answered; what was planted before is there again."""
        openstack.make_environment()
        begun = time.monotonic()
        home = self._run.path(f"nova-{self.port}")
        configuration = home / "nova.conf"
        validation = _lines(cloud.validation_options())
        said = {"home": home, "address": self.address, "most": self._most, "host": COMPUTE_HOST}
        said |= {"storage_ip": STORAGE_IP, "credentials": validation, "validation": validation}
        manila = _lines({**cloud.validation_options(), **cloud.credentials("admin")})
        configuration.write_text(_CONFIGURATION.format(**said, manila=manila))
        script = pathlib.Path(__file__).with_name("nova_server.py")
        argv = [str(openstack.PYTHON), "-P", str(script), str(configuration), _HOST, str(self.port)]
        launch = processes.Launch(env={**openstack.KEEP_BYTECODE, "PYTHONHASHSEED": "0"})  # it shows sets in its faults
        self._process = self._run.spawn(argv, log="nova-output.log", launch=launch)
        processes.wait_for_port(_HOST, self.port, timeout_s, self._process)
        self.started_in_s = time.monotonic() - begun
        return self

    def stop(self) -> None:
        """Stop; nobody listens at `url` then."""
        if self._process is not None:
            self._process.stop(timeout_s=5.0)
            self._process = None

    def plant(self, name: str, project_id: str, **more: object) -> str:
        """Return the id of a new server; `more` holds further fields of Nova's instances (lab/nova_server.py)."""
        server_id = str(more.get("uuid") or uuid.uuid4())
        said = {"uuid": server_id, "display_name": name, "project_id": project_id, **more}
        self._lab("POST", "servers", said)
        return server_id

    def remove(self, server_id: str) -> None:
        """Leave of a server what deleting leaves."""
        self._lab("DELETE", f"servers/{server_id}", None)

    @contextlib.contextmanager
    def without_cell(self) -> Iterator[None]:
        """Within this the API does not reach the database that holds its servers."""
        self._lab("POST", "cell", said=False)
        try:
            yield
        finally:
            self._lab("POST", "cell", said=True)

    def ask_shares(self, call: str, *arguments: str, user: tuple[str, str] | None = None) -> Any:
        """Return what Nova's own client of share services gives for one of its calls; raises `LabError` when it fails.

        What Nova asks as its user needs that one: his token, and the id of the project for which it is.
        """
        return self._lab("POST", "manila", {"call": call, "arguments": arguments, "user": user})

    def _lab(self, method: str, path: str, said: object) -> Any:
        request = urllib.request.Request(  # noqa: S310 (an address of loopback)
            f"{self.address}/lab/{path}", json.dumps(said).encode(), {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=processes.PATIENCE_S) as response:  # noqa: S310 (the same)
                return json.load(response)
        except urllib.error.HTTPError as refusal:
            raise processes.LabError(f"{method} {path}: {refusal.code}\n{json.load(refusal)}") from None


def _lines(options: Mapping[str, str]) -> str:
    return "\n".join(f"{name} = {value}" for name, value in options.items())
