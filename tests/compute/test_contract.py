# SPDX-License-Identifier: Apache-2.0
"""What every compute plug-in promises, tried on each."""

import contextlib

import pytest

from abaca import errors
from abaca.compute.contract import NoWayIn, Wanted
from abaca.domain.attachments.servers import Login
from tests.compute.harness import OTHER, PROJECT, InventoryHarness, NovaHarness, RealNovaHarness, host_key
from tests.databases import on_postgres, on_sqlite, place

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

NOBODY = "00000000-0000-4000-8000-000000000000"


on_a_real_nova = pytest.param("real nova", id="real-nova", marks=pytest.mark.system)


@pytest.fixture(params=[on_sqlite, on_postgres, pytest.param("nova", id="nova"), on_a_real_nova])
def harness(request, tmp_path):
    with contextlib.ExitStack() as stack:
        if request.param == "nova":
            made = NovaHarness(tmp_path)
        elif request.param == "real nova":
            made = RealNovaHarness(tmp_path, *request.getfixturevalue("real_cloud"))
        else:
            database = place(request.param, tmp_path, request)
            stack.callback(database.close)
            made = InventoryHarness(database)
        stack.callback(made.close)
        yield made


def names(harness, **wanted):
    return [server.name for server in harness.compute.list(Wanted(**wanted))]


def test_a_server_is_shown_with_its_owner_and_its_addresses(harness):
    server_id = harness.add("web", "10.0.0.1", "2001:db8::1")
    server = harness.compute.show(server_id)
    assert (server.id, server.name, server.project_id, server.status) == (server_id, "web", PROJECT, "ACTIVE")
    assert [(one.ip, one.family) for one in server.addresses] == [("10.0.0.1", 4), ("2001:db8::1", 6)]
    assert server.created_at is not None


def test_flavors_and_zones_are_those_of_servers(harness):
    server = harness.compute.show(harness.add("web"))
    assert server.flavor in harness.compute.flavors(PROJECT)
    assert list(harness.compute.zones(PROJECT)) == ([server.availability_zone] if server.availability_zone else [])
    assert harness.compute.zones(OTHER) == []


def test_a_server_that_is_not_there_is_none(harness):
    assert harness.compute.show(NOBODY) is None
    assert harness.compute.show("no such id; at all") is None


def test_a_server_that_is_gone_is_none(harness):
    server_id = harness.add("web")
    harness.remove(server_id)
    assert harness.compute.show(server_id) is None
    assert names(harness) == []


def test_servers_are_listed_by_project_status_and_name(harness):
    harness.add("web-1")
    harness.add("web-2", status="SHUTOFF")
    harness.add("db", project_id=OTHER)
    assert sorted(names(harness)) == ["db", "web-1", "web-2"]
    assert sorted(names(harness, project_id=PROJECT)) == ["web-1", "web-2"]
    assert names(harness, statuses=("SHUTOFF", "ERROR")) == ["web-2"]
    assert names(harness, only=lambda server: server.name.endswith("b")) == ["db"]


def test_servers_of_a_project_are_found_by_their_names(harness):
    made = {name: harness.add(name) for name in ("web-1", "web-10", "db (old)")}
    harness.add("web-1", project_id=OTHER)
    found = harness.compute.named(PROJECT, ["web-1", "db (old)", "nosuch"])
    assert {server.id for server in found} == {made["web-1"], made["db (old)"]}
    assert harness.compute.named(PROJECT, ["x" * 255 + str(number) for number in range(20)]) == []


def test_a_server_is_in_no_group_that_there_is_not(harness):
    harness.add("web")
    (server,) = harness.compute.list(Wanted(project_id=PROJECT, groups=(NOBODY, "no such id; at all")))
    assert server.groups == ()


def test_a_list_is_read_page_by_page(harness):
    made = [harness.add(f"web-{number}") for number in range(5)]
    found, marker = [], None
    for _ in range(3):
        page = harness.compute.list(Wanted(limit=2, marker=marker, sort_key="name", descending=False))
        found += [server.id for server in page]
        marker = page[-1].id
    assert found == made
    assert harness.compute.list(Wanted(limit=2, marker=marker, sort_key="name", descending=False)) == []


def test_a_marker_that_is_nobody_is_refused(harness):
    with pytest.raises(errors.Invalid, match="marker"):
        harness.compute.list(Wanted(marker=NOBODY))


def test_the_way_in_is_known_with_the_host_key(harness):
    key = host_key()
    server_id = harness.add("web", "10.0.0.1", "2001:db8::1", host_key=key)
    login = harness.compute.login(server_id)
    assert login == Login(host="10.0.0.1", port=22, user="root", host_key=key, key="file:/etc/abaca/keys/id")


def test_without_a_host_key_nobody_gets_in_and_it_is_said_what_lacks(harness):
    with pytest.raises(NoWayIn, match=r"host.key"):
        harness.compute.login(harness.add("web"))


def test_there_is_no_way_into_a_server_that_is_not_there(harness):
    with pytest.raises(errors.NotFound):
        harness.compute.login(NOBODY)
