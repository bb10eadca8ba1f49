# SPDX-License-Identifier: Apache-2.0
"""The plug-in for a Nova, told what a real Nova said when it was recorded (tests/compute/recorded.py)."""

import copy
import dataclasses
import re
import socket
import time
import urllib.parse
import uuid

import pytest

from abaca import errors, settings
from abaca.compute.contract import Address, ComputeUnreachable, NoWayIn, Wanted
from abaca.compute.nova import Nova
from tests.api.world import OTHER_PROJECT, PROJECT
from tests.compute import questions, recorded, web
from tests.compute.harness import KEY, cloud, host_key
from tests.compute.questions import BROKEN, BUSY, ELSEWHERE, GONE, LOCKED, STORE, USER, WEB

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
EXCHANGES = recorded.load()
SHOW_WEB = f"/v2.1/servers/{WEB}"


@pytest.fixture
def nova(tmp_path):
    """The recorded Nova; its `plugin` makes plug-ins that ask it, its `answers` say by path who knows better."""
    replayed, answers = recorded.replayed(EXCHANGES), {}
    replay = recorded.Nova(lambda asked: answers.get(asked.target.partition("?")[0], replayed)(asked))
    replay.answers = answers
    made = []
    with web.serving(replay) as url:

        def plugin(**options):
            file = cloud(tmp_path / "clouds.yaml", f"{url}/v2.1")
            made.append(Nova(settings.Compute(plugin="nova", nova_clouds_file=file, **{"nova_key": KEY, **options})))
            return made[-1]

        replay.plugin = plugin
        yield replay
        for one in made:
            one.close()


def said_of(server_id):
    """What Nova told the plug-in of a server."""
    return next(answer for asked, answer in EXCHANGES.items() if asked.who == "plug-in" and asked.target == server_id)


def with_metadata(**metadata):
    """Nova's answer for the first server, had it these metadata."""
    answer = copy.deepcopy(said_of(SHOW_WEB))
    answer.body["server"]["metadata"] = metadata
    return answer


def refusal(who, target):
    """An answer of Nova's that refuses, whatever it was asked for."""
    return next(answer for asked, answer in EXCHANGES.items() if (asked.who, asked.target) == (who, target))


def test_all_that_nova_says_of_a_server_is_understood(nova):
    server = nova.plugin().show(WEB)
    assert (server.name, server.project_id, server.user_id, server.status) == ("web-1", PROJECT, USER, "ACTIVE")
    assert server.addresses == (
        Address("192.168.7.5", "private", "fixed", "fa:16:3e:00:00:01"),
        Address("2001:db8:7::5", "private", "fixed", "fa:16:3e:00:00:01"),
        Address("203.0.113.9", "private", "floating", "fa:16:3e:00:00:01"),
        Address("10.0.0.5", "storage", "fixed", "fa:16:3e:00:00:02"),
    )
    assert (server.created_at.isoformat(), server.updated_at.isoformat()) == (
        "2026-03-01T10:00:00",
        "2026-03-01T11:30:00",
    )
    assert (server.flavor.name, server.flavor.vcpus, server.flavor.ram_mib) == ("m1.small", 2, 2048)
    assert (server.flavor.disk_gib, server.flavor.ephemeral_gib, server.flavor.swap_mib) == (20, 1, 512)
    assert server.flavor.extra_specs == {"hw:mem_page_size": "large"}
    assert (server.image_id, server.key_name) == ("5b1dac5e-0000-4000-8000-000000000000", "mine")
    assert (server.availability_zone, server.host, server.description) == ("az-2", "cmp-3", "ledger")


def test_what_else_it_says_is_handed_on_under_its_names(nova):
    told = nova.plugin().show(LOCKED).told
    assert (told["locked"], told["locked_reason"], told["tags"]) == (True, "books are being closed", ["blue", "old"])
    assert (told["accessIPv4"], told["OS-EXT-STS:power_state"], told["OS-DCF:diskConfig"]) == (
        "198.51.100.1",
        3,
        "AUTO",
    )
    volume = {"id": "00000001-9999-4000-8000-000000000000", "delete_on_termination": True}
    assert told["os-extended-volumes:volumes_attached"] == [volume]
    assert nova.plugin().show(BROKEN).told["fault"]["message"] == "No valid host was found."


@pytest.mark.parametrize(
    ("status", "project_id", "names"),
    [(200, PROJECT, {"web-1"}), (200, OTHER_PROJECT, set()), (404, PROJECT, set())],
    ids=["the project's", "another project's", "not there"],
)
def test_who_is_in_a_server_group_is_told_by_the_group(nova, status, project_id, names):
    group = "0b5e1a52-0000-4000-8000-000000000000"
    said = {"id": group, "name": "racks", "project_id": project_id, "members": [WEB, ELSEWHERE]}
    answer = dataclasses.replace(said_of(SHOW_WEB), status=status, body={"server_group": said})
    nova.overrides[f"/v2.1/os-server-groups/{group}"] = answer
    asked = Wanted(project_id=PROJECT, groups=(group, "no id; at all"), only=lambda server: group in server.groups)
    assert {server.name for server in nova.plugin().list(asked)} == names
    assert all("no id" not in question.target for question in nova.asked)


@pytest.mark.parametrize("name", ["web-1", "one|other", "web (old)"])
def test_servers_are_found_by_names_where_patterns_know_no_alternatives(nova, name):
    # what a Nova does whose database is MySQL
    web_1 = said_of(SHOW_WEB)
    known = [{**web_1.body["server"], "id": str(uuid.uuid4()), "name": one} for one in (name, f"{name}0", "another")]

    def answer(question):
        pattern = urllib.parse.parse_qs(question.target).get("name", [""])[0].replace("|", r"\|")
        return dataclasses.replace(web_1, body={"servers": [one for one in known if re.search(pattern, one["name"])]})

    nova.answers["/v2.1/servers/detail"] = answer
    found = nova.plugin().named(PROJECT, [name, "another", "nosuch"])
    assert {server.name for server in found} == {name, "another"}
    assert all("name=" in one.target for one in nova.asked if "/servers/detail" in one.target)


@pytest.mark.parametrize(
    ("server_id", "status", "project_id"),
    [
        (STORE, "SHUTOFF", PROJECT),
        (BROKEN, "ERROR", PROJECT),
        (BUSY, "REBOOT", PROJECT),
        (ELSEWHERE, "ACTIVE", OTHER_PROJECT),
    ],
)
def test_servers_of_any_status_and_project_are_shown(nova, server_id, status, project_id):
    server = nova.plugin().show(server_id)
    assert (server.status, server.project_id) == (status, project_id)


def test_a_server_that_was_deleted_is_none(nova):
    assert nova.plugin().show(GONE) is None


def test_nova_is_asked_for_the_servers_of_all_projects_as_the_query_says(nova):
    (server,) = nova.plugin().list(Wanted(project_id=PROJECT, statuses=("ACTIVE",), name="^web", ip="192.168.7.5"))
    assert server.id == WEB
    query = next(asked.target for asked in nova.asked if "/servers/detail" in asked.target)
    for part in ("all_tenants=true", f"project_id={PROJECT}", "status=ACTIVE", "name=%5Eweb", "ip=%5E192"):
        assert part in query


def test_what_nova_lists_and_was_not_wanted_is_left_out(nova):
    listed = nova.plugin().list(Wanted(statuses=("SHUTOFF", "ERROR")))
    assert [server.name for server in listed] == ["broken", "store"]


def test_a_list_goes_on_after_the_marker(nova):
    plugin, by_name = nova.plugin(), {"limit": 3, "sort_key": "name", "descending": False}
    pages = [
        plugin.list(Wanted(**by_name, **after)) for after in ({}, {"marker": questions.BUILDING}, {"marker": ELSEWHERE})
    ]
    assert [[server.name for server in page] for page in pages] == [
        ["broken", "locked", "new"],
        ["store", "web-1", "web-2"],
        [],
    ]


def test_a_marker_that_nova_does_not_know_is_refused(nova):
    with pytest.raises(errors.Invalid, match="marker"):
        nova.plugin().list(Wanted(marker=questions.NOBODY))


def test_an_id_that_is_none_is_never_asked_for(nova):
    assert nova.plugin().show("../flavors/1") is None
    assert not [asked for asked in nova.asked if "flavors" in asked.target]


def test_the_host_key_of_the_metadata_is_expected(nova):
    login = nova.plugin().login(WEB)
    known = (login.host, login.port, login.user, login.host_key, login.key)
    assert known == ("192.168.7.5", 22, "debian", questions.KEY, KEY)


def test_the_host_key_on_the_console_is_expected(nova):
    assert nova.plugin().login(STORE).host_key == questions.KEY
    assert nova.asked[-1].body == '{"os-getConsoleOutput": {"length": 2000}}'


def test_without_a_host_key_nobody_gets_in_and_it_is_said_what_to_do(nova):
    with pytest.raises(NoWayIn, match="nova_known_hosts"):
        nova.plugin().login(LOCKED)


def test_the_known_hosts_win(nova, tmp_path):
    key = host_key()
    file = tmp_path / "known_hosts"
    file.write_text(f"10.0.0.5,web {key}\n")
    assert nova.plugin(nova_known_hosts=file, nova_network="storage").login(WEB).host_key == key
    with pytest.raises(NoWayIn, match="holds no host key of"):
        nova.plugin(nova_known_hosts=file).login(WEB)
    with pytest.raises(ComputeUnreachable, match="known hosts"):
        nova.plugin(nova_known_hosts=tmp_path / "nosuch").login(WEB)


@pytest.mark.parametrize(
    ("options", "says"), [({"nova_key": None}, "nova_key"), ({"nova_network": "public"}, "nova_network")]
)
def test_what_is_not_configured_is_said(nova, options, says):
    with pytest.raises(NoWayIn, match=says):
        nova.plugin(**options).login(WEB)


def test_a_login_in_the_metadata_that_is_none_is_refused(nova):
    nova.overrides[SHOW_WEB] = with_metadata(abaca_ssh_user="-oProxyCommand=x", abaca_host_key=questions.KEY)
    with pytest.raises(NoWayIn, match="metadata"):
        nova.plugin().login(WEB)


def test_a_key_elsewhere_is_refused_at_the_start(nova):
    with pytest.raises(errors.ConfigError, match="nova_key"):
        nova.plugin(nova_key="file:/etc/shadow")


@pytest.mark.parametrize(
    ("status", "who", "target"),
    [
        (401, "wrong", "/v2.1/servers"),
        (403, "member", "/v2.1/servers?all_tenants=1"),
        (503, "unvalidated", SHOW_WEB),
    ],
)
def test_a_nova_that_refuses_is_not_reached_and_says_why(nova, status, who, target):
    said = nova.overrides[SHOW_WEB] = refusal(who, target)
    assert said.status == status
    with pytest.raises(ComputeUnreachable, match=rf"compute service.*\b{status}\b"):
        nova.plugin().show(WEB)


def test_a_nova_that_has_a_bug_is_not_reached_and_says_so(nova):
    # its form for what it did not expect; it cannot be had to say so at will
    fault = {"computeFault": {"code": 500, "message": "Unexpected API Error."}}
    nova.overrides[SHOW_WEB] = dataclasses.replace(said_of(SHOW_WEB), status=500, body=fault)
    with pytest.raises(ComputeUnreachable, match="Unexpected API Error"):
        nova.plugin().show(WEB)


def test_a_page_of_somebody_in_between_is_not_taken_for_novas_answer(nova):
    page = recorded.Answer(200, {"content-type": "text/html"}, "<html>Down for maintenance</html>")
    nova.overrides["/v2.1/servers/detail"] = nova.overrides[SHOW_WEB] = page
    with pytest.raises(ComputeUnreachable):
        nova.plugin().list(Wanted())
    with pytest.raises(ComputeUnreachable):
        nova.plugin().show(WEB)


def test_a_nova_that_is_away_is_not_reached(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        file = cloud(tmp_path / "clouds.yaml", f"http://127.0.0.1:{taken.getsockname()[1]}/v2.1")
        plugin = Nova(settings.Compute(plugin="nova", nova_clouds_file=file))
        with pytest.raises(ComputeUnreachable):
            plugin.show(WEB)
        plugin.close()


def test_a_nova_that_is_silent_is_not_reached_and_holds_nobody_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = cloud(tmp_path / "clouds.yaml", f"http://127.0.0.1:{silent.getsockname()[1]}/v2.1")
        plugin = Nova(settings.Compute(plugin="nova", nova_clouds_file=file, nova_timeout_s=0.2))
        begun = time.monotonic()
        with pytest.raises(ComputeUnreachable):
            plugin.show(WEB)
        assert time.monotonic() - begun < 10


def test_a_nova_that_comes_back_is_reached_again(nova):
    plugin = nova.plugin()
    nova.overrides["*"] = refusal("unvalidated", SHOW_WEB)
    for _ in range(2):
        with pytest.raises(ComputeUnreachable):
            plugin.show(WEB)
    del nova.overrides["*"]
    assert plugin.show(WEB).name == "web-1"


def test_a_clouds_yaml_that_is_not_there_is_not_reached(tmp_path):
    with pytest.raises(ComputeUnreachable, match="nova"):
        Nova(settings.Compute(plugin="nova", nova_clouds_file=tmp_path / "nosuch.yaml")).show(WEB)


def test_what_nobody_recorded_is_noticed(nova):
    with pytest.raises(ComputeUnreachable, match="nobody recorded this"):
        nova.plugin().list(Wanted(name="never asked before"))
