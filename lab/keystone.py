# SPDX-License-Identifier: Apache-2.0
"""A real Keystone on loopback, with the projects, users, roles and catalog that the tests and clients need.

Making its database takes twenty seconds, so one is made per set of package versions and copied for every run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import sqlite3
import tempfile
import time
from typing import Any, Self

from lab import openstack, processes, runs

_HOST = "127.0.0.1"
REGION = "RegionOne"
_CONFIGURATION = """[DEFAULT]
log_file = {home}/keystone.log
[database]
connection = sqlite:///{home}/keystone.db
[token]
provider = fernet
expiration = 86400
[fernet_tokens]
key_repository = {home}/fernet-keys
[credential]
key_repository = {home}/credential-keys
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
"""


@dataclasses.dataclass(frozen=True)
class User:
    """A user of the domain `Default` with one role on each of some projects; the first project is the usual one."""

    name: str
    role: str
    projects: tuple[str, ...]

    @property
    def password(self) -> str:
        """As secret as a user of a loopback test service needs."""
        return f"{self.name}-password"


USERS = {
    user.name: user
    for user in (
        User("admin", "admin", ("admin", "demo")),
        User("demo", "member", ("demo",)),
        User("demo-reader", "reader", ("demo",)),
        User("other", "member", ("other",)),
        User("abaca", "service", ("service",)),  # validates the tokens of the others
    )
}
_SERVICES = {  # type -> (name, path below the address of Abaca)
    "shared-file-system": ("abaca", "/v2"),
    "sharev2": ("abaca-v2", "/v2"),
    "compute": ("abaca-compute", "/compute/v2.1"),
    "data-processing": ("abaca-clusters", "/data-processing/v1.1/%(project_id)s"),
}


class Keystone:
    """A Keystone whose catalog names the service at `abaca_url`. `auth_url` is known before it starts.

    `compute_url` is that of a Nova; without one the catalog names the compute door of Abaca.
    """

    def __init__(self, run: runs.Run, abaca_url: str = "http://127.0.0.1:8786", compute_url: str | None = None) -> None:
        self._run = run
        self._home = run.path("keystone")
        self._urls = {kind: abaca_url.rstrip("/") + path for kind, (_name, path) in _SERVICES.items()}
        if compute_url is not None:
            self._urls["compute"] = compute_url
        self._process: processes.Process | None = None
        self._ids: dict[str, dict[str, str]] = {}
        self.port = processes.free_port(_HOST)
        self.auth_url = f"http://{_HOST}:{self.port}/v3"
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self, timeout_s: float = 60.0) -> Self:
        """Return when tokens are issued. The first start on a machine makes the environment and the database."""
        openstack.make_environment()
        pattern = _pattern_directory()
        if not (pattern / "ids.json").exists():
            pattern = self._make_pattern(pattern, timeout_s)
        begun = time.monotonic()
        if not (self._home / "keystone.db").exists():
            shutil.copytree(pattern, self._home, dirs_exist_ok=True)
        self._ids = json.loads((self._home / "ids.json").read_text())
        self._name_endpoints()
        self._serve(self._home, timeout_s)
        self.token("admin")
        self.started_in_s = time.monotonic() - begun
        return self

    def stop(self) -> None:
        """Stop; tokens that were issued are valid again after the next `start()`."""
        if self._process is not None:
            self._process.stop(timeout_s=5.0)
            self._process = None

    def token(self, user: str, project: str | None = None) -> str:
        """Return a new token of one of `USERS`, scoped to its first project or to `project`."""
        return self._issue(user, project or USERS[user].projects[0])

    def brief_token(self, user: str, lives_s: float) -> str:
        """Return a token of one of `USERS` that ends so soon: one of an application credential that ends then."""
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=lives_s)
        wanted = {"name": f"until {ends}", "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%S.%f"), "secret": "brief"}
        path = f"/users/{self.user_id(user)}/application_credentials"
        status, made = self.call("POST", path, self.token(user), {"application_credential": wanted})
        if status != 201:
            raise processes.LabError(f"no application credential for {user}: {status} {made}")
        credential = {"id": made["application_credential"]["id"], "secret": wanted["secret"]}
        return self._token({"methods": ["application_credential"], "application_credential": credential})

    def revoke(self, token: str) -> None:
        """Make a token worth nothing."""
        status, _, answer = self._request("DELETE", "/auth/tokens", _both(token), None)
        if status != 204:
            raise processes.LabError(f"the token was not revoked: {status} {answer}")

    def user_id(self, user: str) -> str:
        """Return the id of one of `USERS`."""
        return self._ids["users"][user]

    def project_id(self, project: str) -> str:
        """Return the id of `admin`, `demo`, `other` or `service`."""
        return self._ids["projects"][project]

    def credentials(self, user: str, project: str | None = None) -> dict[str, str]:
        """Return what stands under `auth:` in a clouds.yaml for one of `USERS`."""
        return {
            "auth_url": self.auth_url,
            "username": user,
            "password": USERS[user].password,
            "project_name": project or USERS[user].projects[0],
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }

    def environment(self, user: str, project: str | None = None) -> dict[str, str]:
        """Return the OS_* variables with which the `openstack` client is one of `USERS`."""
        given = {f"OS_{name.upper()}": value for name, value in self.credentials(user, project).items()}
        return {**given, "OS_IDENTITY_API_VERSION": "3", "OS_REGION_NAME": REGION}

    def validation_options(self) -> dict[str, str]:
        """Return the options of `[keystone_authtoken]` with which a service validates tokens here."""
        return {
            **self.credentials("abaca"),
            "auth_type": "password",
            "www_authenticate_uri": self.auth_url,
            "region_name": REGION,
        }

    def name(self, kind: str, url: str, region: str = REGION) -> None:
        """Have the catalog name a service of that type at `url`, in a region that may be new; raises `LabError`."""
        token = self.token("admin")
        services = self.call("GET", f"/services?type={kind}", token)[1]["services"]
        service = services[0]["id"] if services else self._make(token, "service", type=kind, name=kind)
        if self.call("GET", f"/regions/{region}", token)[0] != http.client.OK:
            self._make(token, "region", id=region)
        self._make(token, "endpoint", interface="public", url=url, region_id=region, service_id=service)

    def call(self, method: str, path: str, token: str | None = None, body: object = None) -> tuple[int, Any]:
        """Send one request below `/v3` and return its status and JSON; without `token` as the administrator."""
        token = token or self.token("admin")
        status, _headers, answer = self._request(method, path, {"X-Auth-Token": token}, body)
        return status, answer

    def _make(self, token: str, kind: str, **values: object) -> str:
        status, answer = self.call("POST", f"/{kind}s", token, {kind: values})
        if status != 201:
            raise processes.LabError(f"Keystone did not make {kind} {values}: {status} {answer}")
        return str(answer[kind]["id"])

    def _issue(self, user: str, project: str) -> str:
        domain = {"name": "Default"}
        who = {"name": user, "password": USERS[user].password, "domain": domain}
        identity = {"methods": ["password"], "password": {"user": who}}
        return self._token(identity, scope={"project": {"name": project, "domain": domain}})

    def _token(self, identity: dict[str, object], **scope: object) -> str:
        status, headers, answer = self._request("POST", "/auth/tokens", {}, {"auth": {"identity": identity, **scope}})
        if status != 201:
            raise processes.LabError(f"no token: {status} {answer}")
        return str(headers["X-Subject-Token"])

    def _request(self, method: str, path: str, headers: dict[str, str], body: object) -> tuple[int, Any, Any]:
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=processes.PATIENCE_S)
        with contextlib.closing(connection):
            content = json.dumps(body) if body is not None else None
            connection.request(method, f"/v3{path}", content, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            text = response.read()
            return response.status, response.headers, json.loads(text) if text else None

    def _serve(self, home: pathlib.Path, timeout_s: float) -> None:
        configuration = home / "keystone.conf"
        configuration.write_text(_CONFIGURATION.format(home=home))
        script = pathlib.Path(__file__).with_name("keystone_server.py")
        argv = [str(openstack.PYTHON), "-P", str(script), str(configuration), _HOST, str(self.port)]
        launch = processes.Launch(env=openstack.KEEP_BYTECODE)
        self._process = self._run.spawn(argv, log="keystone-output.log", launch=launch)
        processes.wait_for_port(_HOST, self.port, timeout_s, self._process)

    def _name_endpoints(self) -> None:
        with contextlib.closing(sqlite3.connect(self._home / "keystone.db")) as database, database:
            for kind, url in {**self._urls, "identity": self.auth_url}.items():
                where = "service_id = (SELECT id FROM service WHERE type = ?)"
                database.execute(f"UPDATE endpoint SET url = ? WHERE {where}", (url, kind))  # noqa: S608

    def _make_pattern(self, target: pathlib.Path, timeout_s: float) -> pathlib.Path:
        """Fill a fresh directory by Keystone's own commands and API, then put it in place in one move."""
        draft = pathlib.Path(tempfile.mkdtemp(prefix="pattern-", dir=self._run.directory))
        configuration = draft / "keystone.conf"
        configuration.write_text(_CONFIGURATION.format(home=draft))
        manage = ["env", *(f"{name}={value}" for name, value in openstack.KEEP_BYTECODE.items())]
        manage += [str(openstack.PYTHON.with_name("keystone-manage")), f"--config-file={configuration}"]
        url = "http://unnamed/v3"
        urls = ["--bootstrap-admin-url", url, "--bootstrap-internal-url", url, "--bootstrap-public-url", url]
        who = ["--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid())]
        processes.command([*manage, "db_sync"], 300.0)
        processes.command([*manage, "fernet_setup", *who], 60.0)
        processes.command([*manage, "credential_setup", *who], 60.0)
        password = ["--bootstrap-password", USERS["admin"].password, "--bootstrap-region-id", REGION]
        processes.command([*manage, "bootstrap", *password, *urls], 120.0)
        self._serve(draft, timeout_s)
        (draft / "ids.json").write_text(json.dumps(self._fill()))
        self.stop()
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # another run was quicker, or the place cannot be written
            target.parent.mkdir(exist_ok=True)
            shutil.copytree(draft, partial)
            partial.replace(target)
        shutil.rmtree(partial, ignore_errors=True)
        return target if (target / "ids.json").exists() else draft

    def _fill(self) -> dict[str, dict[str, str]]:
        token = self._issue("admin", "admin")
        make = functools.partial(self._make, token)

        def known(kind: str) -> dict[str, str]:
            return {entry["name"]: entry["id"] for entry in self.call("GET", f"/{kind}", token)[1][kind]}

        roles, projects, users = known("roles"), known("projects"), known("users")
        for user in USERS.values():
            if user.name not in users:
                users[user.name] = make("user", name=user.name, password=user.password, domain_id="default")
            for project in user.projects:
                if project not in projects:
                    projects[project] = make("project", name=project, domain_id="default")
                place = f"/projects/{projects[project]}/users/{users[user.name]}/roles/{roles[user.role]}"
                self.call("PUT", place, token)
        for kind, (name, _path) in _SERVICES.items():
            service = make("service", type=kind, name=name)
            for interface in ("public", "internal", "admin"):
                values = {"interface": interface, "url": "http://unnamed", "region_id": REGION}
                make("endpoint", service_id=service, **values)
        return {"projects": projects, "users": users, "roles": roles}


def _both(token: str) -> dict[str, str]:
    return {"X-Auth-Token": token, "X-Subject-Token": token}


def _pattern_directory() -> pathlib.Path:
    """Named by all that it depends on: the locked packages and this file."""
    digest = hashlib.sha256()
    for source in (openstack.LOCK, pathlib.Path(__file__)):
        digest.update(source.read_bytes())
    return openstack.ENVIRONMENT / "patterns" / digest.hexdigest()[:16]
