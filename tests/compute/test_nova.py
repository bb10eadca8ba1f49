# SPDX-License-Identifier: Apache-2.0
"""The plug-in for a Nova, told by a stand-in what a Nova tells: answers in its form, refusals, silence."""

import json
import socket
import time

import pytest

from abaca import errors
from abaca.compute.contract import Address, NoWayIn, Unreachable, Wanted
from abaca.compute.nova import Nova
from abaca.settings import tree
from tests.compute import web
from tests.compute.harness import KEY, cloud, host_key

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
ID = "6d3a8f6c-4b1e-4d0f-9d0e-1f6f0c7b2a11"
SERVER = {
    "id": ID,
    "name": "db-7",
    "status": "ACTIVE",
    "tenant_id": "c3" * 16,
    "user_id": "d4" * 16,
    "metadata": {},
    "hostId": "9f",
    "image": {"id": "5b1d", "links": []},
    "flavor": {
        "original_name": "m1.small",
        "vcpus": 2,
        "ram": 2048,
        "disk": 20,
        "ephemeral": 1,
        "swap": 512,
        "extra_specs": {"hw:mem_page_size": "large"},
    },
    "created": "2026-03-01T10:00:00Z",
    "updated": "2026-03-02T11:30:00Z",
    "addresses": {
        "private": [
            {
                "version": 4,
                "addr": "192.168.7.5",
                "OS-EXT-IPS:type": "fixed",
                "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:0:0:1",
            },
            {"version": 6, "addr": "2001:DB8:7::5", "OS-EXT-IPS:type": "fixed"},
        ],
        "public": [{"version": 4, "addr": "203.0.113.9", "OS-EXT-IPS:type": "floating"}],
    },
    "key_name": "mine",
    "OS-EXT-AZ:availability_zone": "az-2",
    "OS-EXT-STS:task_state": None,
    "OS-EXT-STS:vm_state": "active",
    "OS-EXT-STS:power_state": 1,
    "OS-EXT-SRV-ATTR:host": "cmp-3",
    "description": "ledger",
    "links": [],
}


class StandIn:
    """A Nova that gives prepared answers by method and path, and remembers what it was asked."""

    def __init__(self):
        self.answers = {}
        self.asked = []

    def __call__(self, environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        length = int(environ.get("CONTENT_LENGTH") or 0)
        sent = environ["wsgi.input"].read(length).decode()
        self.asked.append((method, path, environ["QUERY_STRING"], sent))
        status, body = self.answers.get(
            (method, path), ("404 Not Found", {"itemNotFound": {"code": 404, "message": "x"}})
        )
        text = json.dumps(body).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(text)))]
        start_response(status, headers)
        return [text]

    def say(self, path, body, status="200 OK", method="GET"):
        self.answers[method, path] = status, body


@pytest.fixture
def nova(tmp_path):
    """A stand-in with the server, and a function that makes a plug-in for it."""
    stand_in = StandIn()
    made = []
    with web.serving(stand_in) as url:
        version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
        links = [{"rel": "self", "href": f"{url}/v2.1/"}]
        stand_in.say("/v2.1/", {"version": {**version, "links": links}})
        stand_in.say("/v2.1", {"version": {**version, "links": links}})
        stand_in.say(f"/v2.1/servers/{ID}", {"server": SERVER})
        stand_in.say("/v2.1/servers/detail", {"servers": [SERVER]})

        def plugin(**options):
            file = cloud(tmp_path / "clouds.yaml", f"{url}/v2.1")
            made.append(Nova(tree.Compute(plugin="nova", nova_clouds_file=file, **{"nova_key": KEY, **options})))
            return made[-1]

        stand_in.plugin = plugin
        yield stand_in
        for one in made:
            one.close()


def test_all_that_nova_says_of_a_server_is_understood(nova):
    server = nova.plugin().show(ID)
    assert (server.name, server.project_id, server.user_id, server.status) == ("db-7", "c3" * 16, "d4" * 16, "ACTIVE")
    assert server.addresses == (
        Address("192.168.7.5", "private", "fixed", "fa:16:3e:0:0:1"),
        Address("2001:db8:7::5", "private"),
        Address("203.0.113.9", "public", "floating"),
    )
    assert (server.created_at.isoformat(), server.updated_at.isoformat()) == (
        "2026-03-01T10:00:00",
        "2026-03-02T11:30:00",
    )
    assert (server.flavor.name, server.flavor.vcpus, server.flavor.ram_mib) == ("m1.small", 2, 2048)
    assert (server.flavor.disk_gib, server.flavor.ephemeral_gib, server.flavor.swap_mib) == (20, 1, 512)
    assert (server.image_id, server.key_name, server.availability_zone) == ("5b1d", "mine", "az-2")
    assert (server.host, server.description) == ("cmp-3", "ledger")


def test_nova_is_asked_for_the_servers_of_all_projects_as_the_query_says(nova):
    (server,) = nova.plugin().list(Wanted(project_id="c3" * 16, statuses=("ACTIVE",), name="^db", ip="192.168.7.5"))
    assert server.id == ID
    query = next(query for _, path, query, _ in nova.asked if path.endswith("/servers/detail"))
    for part in ("all_tenants=True", "project_id=" + "c3" * 16, "status=ACTIVE", "name=%5Edb", "ip=%5E192"):
        assert part in query


def test_what_nova_lists_and_was_not_wanted_is_left_out(nova):
    assert nova.plugin().list(Wanted(project_id="somebody else")) == []
    nova.say("/v2.1/servers/detail", {"servers": [{**SERVER, "status": "DELETED"}]})
    assert nova.plugin().list(Wanted()) == []


def test_an_id_that_is_none_is_never_asked_for(nova):
    assert nova.plugin().show("../flavors/1") is None
    assert not [path for _, path, _, _ in nova.asked if "flavors" in path]


def test_the_host_key_of_the_metadata_is_expected(nova):
    key = host_key()
    nova.say(
        f"/v2.1/servers/{ID}", {"server": {**SERVER, "metadata": {"abaca_host_key": key, "abaca_ssh_user": "debian"}}}
    )
    entry = nova.plugin().entry(ID)
    assert (entry.host, entry.port, entry.user, entry.host_key, entry.key) == ("192.168.7.5", 22, "debian", key, KEY)


def test_the_host_key_on_the_console_is_expected(nova):
    old, new, other = host_key(), host_key(), host_key("ecdsa-sha2-nistp256")
    block = "-----BEGIN SSH HOST KEY KEYS-----\r\n{}\r\n-----END SSH HOST KEY KEYS-----\r\n"
    text = "boot\n" + block.format(f"{old} root@db-7") + "boot\n" + block.format(f"{other} root@x\r\n{new} root@db-7")
    nova.say(f"/v2.1/servers/{ID}/action", {"output": text}, method="POST")
    assert nova.plugin().entry(ID).host_key == new
    assert json.loads(nova.asked[-1][3]) == {"os-getConsoleOutput": {"length": 2000}}


def test_without_a_host_key_nobody_gets_in_and_it_is_said_what_to_do(nova):
    with pytest.raises(NoWayIn, match="nova_known_hosts"):
        nova.plugin().entry(ID)


def test_the_known_hosts_win(nova, tmp_path):
    key = host_key()
    nova.say(f"/v2.1/servers/{ID}", {"server": {**SERVER, "metadata": {"abaca_host_key": host_key()}}})
    file = tmp_path / "known_hosts"
    file.write_text(f"203.0.113.9,web {key}\n")
    assert nova.plugin(nova_known_hosts=file, nova_network="public").entry(ID).host_key == key
    with pytest.raises(NoWayIn, match="holds no host key of"):
        nova.plugin(nova_known_hosts=file).entry(ID)
    with pytest.raises(Unreachable, match="known hosts"):
        nova.plugin(nova_known_hosts=tmp_path / "nosuch").entry(ID)


@pytest.mark.parametrize(
    ("options", "says"), [({"nova_key": None}, "nova_key"), ({"nova_network": "storage"}, "nova_network")]
)
def test_what_is_not_configured_is_said(nova, options, says):
    with pytest.raises(NoWayIn, match=says):
        nova.plugin(**options).entry(ID)


def test_a_login_in_the_metadata_that_is_none_is_refused(nova):
    nova.say(f"/v2.1/servers/{ID}", {"server": {**SERVER, "metadata": {"abaca_ssh_user": "-oProxyCommand=x"}}})
    with pytest.raises(NoWayIn, match="metadata"):
        nova.plugin().entry(ID)


def test_a_key_elsewhere_is_refused_at_the_start(nova):
    with pytest.raises(errors.ConfigError, match="nova_key"):
        nova.plugin(nova_key="file:/etc/shadow")


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "500 Oops", "503 Service Unavailable"])
def test_a_nova_that_refuses_is_not_reached_and_says_why(nova, status):
    nova.say(f"/v2.1/servers/{ID}", {"x": {"code": 1, "message": "no"}}, status)
    with pytest.raises(Unreachable, match="compute service"):
        nova.plugin().show(ID)


def test_a_nova_that_is_away_is_not_reached(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        file = cloud(tmp_path / "clouds.yaml", f"http://127.0.0.1:{taken.getsockname()[1]}/v2.1")
        plugin = Nova(tree.Compute(plugin="nova", nova_clouds_file=file))
        with pytest.raises(Unreachable):
            plugin.show(ID)
        plugin.close()


def test_a_nova_that_is_silent_is_not_reached_and_holds_nobody_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = cloud(tmp_path / "clouds.yaml", f"http://127.0.0.1:{silent.getsockname()[1]}/v2.1")
        plugin = Nova(tree.Compute(plugin="nova", nova_clouds_file=file, nova_timeout_s=0.2))
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            plugin.show(ID)
        assert time.monotonic() - begun < 10


def test_a_nova_that_comes_back_is_reached_again(nova):
    plugin = nova.plugin()
    known = dict(nova.answers)
    for _, path in known:
        nova.say(path, {"x": {"code": 503, "message": "later"}}, "503 Service Unavailable")
    for _ in range(2):
        with pytest.raises(Unreachable):
            plugin.show(ID)
    nova.answers |= known
    assert plugin.show(ID).name == "db-7"


def test_a_clouds_yaml_that_is_not_there_is_not_reached(tmp_path):
    with pytest.raises(Unreachable, match="nova"):
        Nova(tree.Compute(plugin="nova", nova_clouds_file=tmp_path / "nosuch.yaml")).show(ID)
