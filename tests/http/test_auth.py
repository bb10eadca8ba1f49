# SPDX-License-Identifier: Apache-2.0
"""Who is asking, by each strategy, at the application's door."""

import base64
import contextlib
import datetime
import http.server
import json
import threading

import msgspec
import pytest

from abaca import app, errors, settings
from abaca.api import doors
from abaca.http import auth, pipeline
from abaca.scheduler.known_pools import KnownPools
from tests.api.world import PASSWORD, PEOPLE, call, hashed, world


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("auth"), worker=False) as made:
        yield made


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Bearer abc",
        "Basic " + base64.b64encode(b"\xff\xfe").decode(),
        basic("member", "wrong"),
        basic("nobody", PASSWORD),
        basic("", ""),
        basic("member", "x" * 200),
    ],
)
def test_whoever_cannot_prove_who_they_are_is_refused_in_one_form(here, header):
    headers = {} if header is None else {"authorization": header}
    answer = here.ask("none", "GET", "/types", **headers)
    assert answer.status == 401
    assert set(answer.body["error"]) == {"code", "title", "message"}
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "x-openstack-request-id" in answer.headers


@pytest.mark.parametrize("who", PEOPLE)
def test_everybody_in_the_users_file_is_known(here, who):
    assert here.ask(who, "GET", "/extensions").status == 200


def environ(name, password):
    return {"HTTP_AUTHORIZATION": basic(name, password)}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_a_changed_users_file_counts_from_the_next_second_on(tmp_path):
    clock, file = Clock(), tmp_path / "users"
    file.write_text(f"# people\n\nann:{hashed('one')}:p1:member\n")
    strategy = auth.HttpBasic(file, clock=clock)
    assert strategy.identify(environ("ann", "one")).roles == {"member", "reader"}
    file.write_text(f"ann:{hashed('two')}:p1:admin\nbob:{hashed('x')}:p2:reader\n")
    clock.now += 2
    with pytest.raises(errors.Unauthorized):
        strategy.identify(environ("ann", "one"))
    assert "admin" in strategy.identify(environ("ann", "two")).roles
    assert strategy.identify(environ("bob", "x")).project_id == "p2"


def test_a_users_file_that_became_wrong_changes_nothing(tmp_path, caplog):
    clock, file = Clock(), tmp_path / "users"
    file.write_text(f"ann:{hashed('one')}:p1:member\n")
    strategy = auth.HttpBasic(file, clock=clock)
    file.write_text("ann:plain:p1:member\n")
    clock.now += 2
    assert strategy.identify(environ("ann", "one")).user_id == "ann"
    assert "line 1" in caplog.text


@pytest.mark.parametrize("line", ["ann", "ann:x:p1:member", "ann:$2b$04$abc:p1", "ann:$2b$04$abc::member"])
def test_a_line_that_is_no_user_is_refused_at_the_start(tmp_path, line):
    file = tmp_path / "users"
    file.write_text(line)
    with pytest.raises(errors.ConfigError, match="line 1"):
        auth.HttpBasic(file)


def test_a_missing_users_file_is_refused_at_the_start(tmp_path):
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        auth.HttpBasic(tmp_path / "nosuch")


@pytest.mark.parametrize(
    ("listen", "is_allowed"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("db", False)]
)
def test_without_authentication_only_the_loopback_address_is_served(listen, is_allowed):
    loaded = settings.Settings(auth_strategy="none", osapi_share_listen=listen)
    if is_allowed:
        assert "admin" in auth.strategy(loaded).identify({}).roles
        return
    with pytest.raises(errors.ConfigError, match="administrator"):
        auth.strategy(loaded)


class Keystone(http.server.BaseHTTPRequestHandler):
    """Validates tokens as Keystone does: good ones are named like the roles that they carry."""

    def do_GET(self):
        if self.path.rstrip("/").endswith("/v3") or self.path == "/":
            links = [{"rel": "self", "href": f"http://127.0.0.1:{self.server.server_port}/v3"}]
            return self.say(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})
        self.server.validated += 1
        token = self.headers.get("X-Subject-Token", "")
        if token.startswith("bad"):
            return self.say(404, {"error": {"code": 404, "message": "no", "title": "Not Found"}})
        return self.say(200, {"token": self.token(token)}, {"X-Subject-Token": token})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say(201, {"token": self.token("service")}, {"X-Subject-Token": "service-token"})

    def token(self, role):
        now = datetime.datetime.now(datetime.UTC)
        domain = {"id": "default", "name": "Default"}
        ends = now + datetime.timedelta(seconds=-5 if role == "expired" else 3600)
        scope = {"project": {"id": "p1", "name": "p", "domain": domain}}
        if role == "unscoped":
            scope = {}
        elif role.startswith("system-"):
            scope, role = {"system": {"all": True}}, role.removeprefix("system-")
        catalog = [self.identity()]
        if role.endswith("-with-shares"):
            role = role.removesuffix("-with-shares")
            catalog.append({**self.identity(), "type": "sharev2", "id": "m", "name": "manila"})
        return {
            "methods": ["password"],
            "user": {"id": "u1", "name": "u", "domain": domain},
            "roles": [{"id": "r", "name": role}],
            "issued_at": now.strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            "audit_ids": ["a"],
            "catalog": catalog,
            **scope,
        }

    def identity(self):
        url = f"http://127.0.0.1:{self.server.server_port}/v3"
        endpoints = [
            {"id": f, "interface": f, "region": "R", "region_id": "R", "url": url}
            for f in ("public", "internal", "admin")
        ]
        return {"type": "identity", "id": "k", "name": "keystone", "endpoints": endpoints}

    def say(self, status, body, headers=None):
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(raw)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format, *args):
        """Nobody reads it."""


@contextlib.contextmanager
def keystone():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keystone) as server:
        server.validated = 0
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def options_for(port):
    url = f"http://127.0.0.1:{port}/v3"
    return {
        "www_authenticate_uri": url,
        "auth_url": url,
        "auth_type": "password",
        "username": "s",
        "password": "s",
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "http_connect_timeout": "2",
        "http_request_max_retries": "0",
    }


def validating(port, **how):
    return auth.Keystone(options_for(port), **how)


def test_a_token_is_validated_once_a_minute():
    import time

    clock = Clock()
    clock.now = time.time()
    with keystone() as server:
        strategy = validating(server.server_port, clock=clock)
        for _ in range(3):
            identity = strategy.identify({"HTTP_X_AUTH_TOKEN": "member"})
        assert (identity.user_id, identity.project_id, identity.roles) == ("u1", "p1", {"member", "reader"})
        assert server.validated == 1
        clock.now += 61
        strategy.identify({"HTTP_X_AUTH_TOKEN": "member"})
        assert server.validated == 2


def test_a_token_is_validated_each_time_where_nothing_is_remembered():
    with keystone() as server:
        strategy = validating(server.server_port, remember_s=0)
        for _ in range(3):
            strategy.identify({"HTTP_X_AUTH_TOKEN": "member"})
        assert server.validated == 3


def test_a_token_of_the_whole_system_is_taken_where_the_operator_says_so(here):
    with keystone() as server:
        for enforce_scope, wanted in ((True, [403, 403, 403, 403, 200]), (False, [200, 403, 400, 400, 200])):
            policy = msgspec.structs.replace(here.settings.oslo_policy, enforce_scope=enforce_scope)
            loaded = here.settings.changed(
                auth_strategy="keystone", keystone_authtoken=options_for(server.server_port), oslo_policy=policy
            )
            application = pipeline.make_app(
                loaded, here.db, doors.every(), compute=app.compute(loaded, here.db), known_pools=KnownPools()
            )
            asked = [
                ("system-admin", "GET", "/v2/shares?all_tenants=1", None),
                ("system-member", "GET", "/v2/shares", None),
                ("system-admin", "POST", "/v2/shares", {"share": {"share_proto": "NFS", "size": 1}}),
                ("system-admin", "POST", "/abaca/v1/servers", {"server": {"name": "x", "addresses": ["10.0.0.9"]}}),
                ("admin", "GET", "/v2/shares", None),
            ]
            found = []
            for token, method, path, body in asked:
                raw = json.dumps(body).encode() if body else b""
                headers = {"x-auth-token": token, "content-type": "application/json"}
                found.append(call(application, method, path, raw, headers).status)
            assert found == wanted


@pytest.mark.parametrize(
    ("token", "name"), [("member", "SERVICE_NOT_FOUND"), ("member-with-shares", "INVALID_REFERENCE")]
)
@pytest.mark.parametrize("kind", ["clusters", "cluster-templates", "node-group-templates"])
def test_nothing_is_mounted_for_whom_no_file_service_is_in_the_catalog(here, token, name, kind):
    said = {"name": "mpi", "plugin_name": "abaca", "plugin_version": "1.0", "shares": [{"id": "0" * 32}]}
    with keystone() as server:
        loaded = here.settings.changed(auth_strategy="keystone", keystone_authtoken=options_for(server.server_port))
        application = pipeline.make_app(
            loaded, here.db, doors.every(), compute=app.compute(loaded, here.db), known_pools=KnownPools()
        )
        headers = {"x-auth-token": token, "content-type": "application/json"}
        answer = call(application, "POST", f"/data-processing/v2/{kind}", json.dumps(said).encode(), headers)
    assert (answer.status, answer.body["error_name"]) == (400, name)


@pytest.mark.parametrize("token", ["bad", "expired", "unscoped", "", None])
def test_a_token_that_gives_no_access_to_a_project_is_refused(token):
    with keystone() as server:
        strategy = validating(server.server_port)
        assert strategy.challenge.startswith("Keystone uri=")
        with pytest.raises(errors.Unauthorized):
            strategy.identify({} if token is None else {"HTTP_X_AUTH_TOKEN": token})


def test_a_misspelt_option_is_refused_with_the_right_one():
    with pytest.raises(errors.ConfigError, match="www_authenticate_uri"):
        auth.Keystone({"www_authenticate_url": "http://127.0.0.1/"})


def test_when_keystone_is_away_nobody_is_called_a_stranger():
    with keystone() as server:
        port = server.server_port
        strategy = validating(port)
    with pytest.raises(errors.Unavailable):
        strategy.identify({"HTTP_X_AUTH_TOKEN": "member"})


def without_authentication(**headers):
    loaded = settings.Settings(auth_strategy="none", api=settings.Api(hosts=("share.example",)))
    return auth.strategy(loaded).identify({f"HTTP_{name.upper()}": value for name, value in headers.items()})


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8786", "api.localhost", "127.0.0.1:8786", "127.9.9.9", "[::1]:8786", "Share.Example"],
)
def test_without_authentication_requests_for_this_host_are_answered(host):
    assert without_authentication(host=host, origin=f"http://{host}").user_id == "admin"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8786", "10.0.0.1", "", "localhost.evil.example", "[", "null"]
)
@pytest.mark.parametrize("header", ["host", "origin"])
def test_without_authentication_no_page_of_another_site_is_an_administrator(header, host):
    """Its name may lead here: a browser on this host then asks on its behalf."""
    with pytest.raises(errors.Forbidden, match=f"the {header.capitalize()} of this one is another"):
        without_authentication(**{"host": "localhost", header: host})
