# SPDX-License-Identifier: Apache-2.0
"""Abaca as a data centre runs it: API and worker apart, PostgreSQL, and the tokens of a real Keystone."""

import configparser
import contextlib
import http.client
import json
import sys

from lab import keystone, postgres, processes
from tests.clients import command

START_S = 60
HOST = "127.0.0.1"


class Datacentre:
    """All of it, running. `clouds` is a clouds.yaml with each of Keystone's users."""

    def __init__(self, run, backend):
        self.directory = run.path("datacentre")
        self.port = processes.free_port(HOST)
        self.url = f"http://{HOST}:{self.port}"
        self.keystone = keystone.Keystone(run, self.url)
        self.postgres = postgres.Postgres(run, "datacentre-postgres")
        self.clouds = self.directory / "clouds.yaml"
        self.configuration = self.directory / "abaca.conf"
        self._run = run
        self._backend = backend
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.postgres)
            stack.enter_context(self.keystone)
            self._configure()
            self._abaca("db", "upgrade").wait(START_S)
            for program in ("api", "worker"):
                stack.callback(self._abaca(program).stop)
            processes.wait_until(self._is_healthy, START_S, "abaca api")
            command.write_clouds(self.clouds, {name: self.cloud(name) for name in keystone.USERS})
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def cloud(self, user, **changed):
        """An entry for clouds.yaml: what a user of any cloud has, and the microversion."""
        return {
            "auth": {**self.keystone.credentials(user), **changed},
            "region_name": "RegionOne",
            "identity_api_version": "3",
            "shared_file_system_api_version": command.MICROVERSION,
        }

    def ask(self, token, method="GET", path="/v2/shares"):
        """Status, headers and body of a request with a token."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, headers={"X-Auth-Token": token} if token else {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None

    def _is_healthy(self):
        with contextlib.suppress(OSError):
            return self.ask(None, path="/healthcheck")[0] == 200
        return False

    def _abaca(self, *words):
        argv = [sys.executable, "-m", "abaca", *words, "--config-file", str(self.configuration)]
        return self._run.spawn(argv, log=f"datacentre-{words[0]}.log")

    def _configure(self):
        said = configparser.RawConfigParser()
        said.read_dict(
            {
                "DEFAULT": {
                    "host": "here",
                    "state_path": str(self._run.path("datacentre", "state")),
                    "osapi_share_listen": HOST,
                    "osapi_share_listen_port": str(self.port),
                    "auth_strategy": "keystone",
                    "default_share_type": "default",
                    "enabled_share_backends": "alpha,tenants",
                },
                "database": {"connection": self.postgres.create_database("abaca")},
                "keystone_authtoken": self.keystone.validation_options(),
                "alpha": self._backend,
                # makes share servers, on one network that is declared
                "tenants": {"driver": "dummy", "driver_handles_share_servers": "true"},
                "networks": {"subnets": "west"},
                "subnet_west": {"cidr": "10.20.0.0/24", "is_default": "true"},
                "nodes": {"plugin": "rehearsal"},
            }
        )
        self.configuration.touch(mode=0o600)
        with self.configuration.open("w") as file:
            said.write(file)
