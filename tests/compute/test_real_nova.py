# SPDX-License-Identifier: Apache-2.0
"""The lab's Nova, and the plug-in when it refuses or is away. What that does when all is well: test_contract.py."""

import contextlib
import http.client
import json

import pytest

from abaca import app, settings
from abaca.compute.contract import ComputeUnreachable, Wanted
from abaca.compute.nova import Nova
from abaca.operations.attachments.attachment_parts import AttachmentParts
from abaca.reconcile.attachments import Attachments
from tests.api import world as worlds
from tests.api.attachments import test_attachments as doors
from tests.compute.harness import KEY, OTHER, PROJECT, RealNovaHarness, host_key
from tests.conftest import wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture
def harness(tmp_path, real_cloud):
    made = RealNovaHarness(tmp_path, *real_cloud)
    yield made
    made.close()


def ask(real_cloud, user, path):
    login, nova = real_cloud
    connection = http.client.HTTPConnection("127.0.0.1", nova.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", f"/v2.1{path}", headers={"X-Auth-Token": login.token(user)})
        response = connection.getresponse()
        return response.status, json.load(response)


def refusal(harness, server_id):
    try:
        harness.compute.show(server_id)
    except ComputeUnreachable as refused:
        return str(refused)
    return None


def test_servers_are_seen_by_their_projects(harness, real_cloud):
    harness.add("web", project_id=real_cloud[0].project_id("demo"))
    assert [one["name"] for one in ask(real_cloud, "demo", "/servers")[1]["servers"]] == ["web"]
    assert ask(real_cloud, "other", "/servers") == (200, {"servers": []})


def test_rows_that_no_nova_has_are_noticed(real_cloud):
    login, nova = real_cloud
    server_id = nova.plant("web", login.project_id("demo"), user_id="")
    assert ask(real_cloud, "demo", f"/servers/{server_id}")[0] >= 400
    nova.remove(server_id)


def test_a_console_that_is_asked_for_over_the_bus_says_the_host_key(harness, real_cloud):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdgB5Zl5wz2t8RNyLa1mcwanzvGeFfaxk9dYnIlFR2z"
    console = f"boot\n-----BEGIN SSH HOST KEY KEYS-----\n{key} root@web\n-----END SSH HOST KEY KEYS-----\nlogin:"
    at = [{"network": "private", "ip": "10.0.0.1", "mac": "fa:16:3e:00:00:01"}]
    server_id = real_cloud[1].plant("web", PROJECT, host="compute-1", console=console, addresses=at)
    assert harness.compute.login(server_id).host_key == key
    harness.remove(server_id)


def test_a_share_is_attached_to_a_server_and_goes_when_nova_deletes_it(harness, real_cloud, tmp_path):
    (tmp_path / "abaca").mkdir()
    more = f"[compute]\nplugin = nova\nnova_clouds_file = {harness.clouds}\nnova_key = {KEY}"
    server_id = harness.add("web", "10.0.0.1", host_key=host_key())
    with worlds.world(tmp_path / "abaca", worker=True, more=more) as world:
        kind = {"share_type": {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}}
        world.ask("admin", "POST", "/types", kind, **doors.NEWEST)
        share_id = doors.share(world)
        attachment = doors.attached(world, share_id, server_id)
        assert set(doors.rules(world, share_id)) == set(attachment["addresses"]) == {"10.0.0.1"}
        assert doors.attach(world, share_id, harness.add("theirs", project_id=OTHER)).status == 404
        reconciler = Attachments(
            world.db, AttachmentParts(harness.compute, app.nodes(world.settings)), verify_interval_s=0
        )
        with real_cloud[1].without_cell():
            reconciler.verify()
        assert doors.shown(world, attachment["id"])["state"] == "active"
        harness.remove(server_id)
        reconciler.verify()
        doors.until_gone(world, attachment["id"])
        assert doors.rules(world, share_id) == {}


def test_a_server_of_a_cell_that_nova_does_not_reach_is_neither_gone_nor_without_addresses(harness, real_cloud):
    _, nova = real_cloud
    server_id = harness.add("web", "10.0.0.1")
    with nova.without_cell(), pytest.raises(ComputeUnreachable, match="cell"):
        harness.compute.show(server_id)
    assert [one.ip for one in harness.compute.show(server_id).addresses] == ["10.0.0.1"]


def test_a_wrong_password_is_said(harness):
    said = json.loads(harness.clouds.read_text())
    said["clouds"]["nova"]["auth"]["password"] = "wrong"
    harness.clouds.write_text(json.dumps(said))
    with pytest.raises(ComputeUnreachable, match="authentication"):
        Nova(settings.Compute(plugin="nova", nova_clouds_file=harness.clouds)).show("0" * 32)


def test_a_user_who_is_no_administrator_is_told_so(tmp_path, real_cloud):
    login, _ = real_cloud
    file = tmp_path / "clouds.yaml"
    file.write_text(json.dumps({"clouds": {"nova": {"auth": login.credentials("demo"), "region_name": "RegionOne"}}}))
    plugin = Nova(settings.Compute(plugin="nova", nova_clouds_file=file))
    with pytest.raises(ComputeUnreachable, match="get_all_tenants"):
        plugin.list(Wanted())
    plugin.close()


def test_a_nova_that_loses_its_keystone_and_then_stops_is_not_reached_until_both_are_back(harness, real_cloud):
    login, nova = real_cloud
    server_id = harness.add("web")
    assert harness.compute.show(server_id).name == "web"
    login.stop()
    # it remembers the token for a second
    assert "503" in wait_until(lambda: refusal(harness, server_id))
    login.start()
    assert harness.compute.show(server_id).name == "web"
    nova.stop()
    with pytest.raises(ComputeUnreachable, match=r"(?i)connect"):
        harness.compute.show(server_id)
    nova.start(login)
    assert harness.compute.show(server_id).name == "web"
