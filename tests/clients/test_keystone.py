# SPDX-License-Identifier: Apache-2.0
"""The unmodified `openstack` command against Abaca on PostgreSQL with a real Keystone; and what tokens are worth."""

import contextlib
import subprocess
import sys

import openstack
import pytest
from openstack import exceptions

from tests.clients import command
from tests.clients.command import Cloud, Refused
from tests.clients.conftest import BACKEND
from tests.clients.datacentre import Datacentre
from tests.conftest import wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


KEY = "3d9a0c2e-7d4c-4e0b-9e0c-0d0f5a9d7c11"


@pytest.fixture(scope="module")
def site(run):
    with Datacentre(run, BACKEND) as site:
        yield site


@pytest.fixture(scope="module")
def admin(site):
    return Cloud(site.clouds, "admin")


@pytest.fixture(scope="module")
def demo(site):
    return Cloud(site.clouds, "demo")


@pytest.fixture(scope="module")
def docs(admin, demo):
    """A share of the project `demo`."""
    admin.run("share", "type", "create", "default", "false")
    return demo.read("share", "create", "NFS", "1", "--name", "docs", "--wait")


def test_the_service_is_found_in_the_catalog_and_says_its_versions(site, demo):
    (row,) = demo.read("versions", "show", "--service", "shared-file-system")
    assert (row["Version"], row["Status"], row["Min Microversion"]) == ("2.0", "CURRENT", "2.0")
    assert row["Endpoint"] == f"{site.url}/v2/"


def test_a_share_lives_its_life(site, demo, docs):
    assert (docs["status"], docs["project_id"]) == ("available", site.keystone.project_id("demo"))
    assert docs["user_id"] == site.keystone.user_id("demo")
    demo.run("share", "resize", "docs", "2", "--wait")
    made = demo.read("share", "access", "create", "docs", "ip", "10.0.0.0/8", "--wait")
    assert made["state"] == "active"
    demo.run("share", "access", "delete", "docs", made["id"], "--wait")
    made = demo.read("share", "create", "NFS", "1", "--name", "brief", "--wait")
    demo.run("share", "delete", "brief", "--wait")
    (row,) = demo.read("share", "list")
    assert (row["ID"], row["Size"]) == (docs["id"], 2)


def test_quotas_are_set_for_a_project_by_its_name(admin, docs):
    assert admin.read("share", "quota", "show", "demo")["shares"] == 50
    admin.run("share", "quota", "set", "demo", "--shares", "9", "--gigabytes", "90")
    shown = admin.read("share", "quota", "show", "demo", "--detail")
    assert shown["shares"].split("\n") == ["in_use = 1", "limit = 9", "reserved = 0"]
    admin.run("share", "quota", "set", "demo", "--shares", "3", "--user", "demo")
    assert admin.read("share", "quota", "show", "demo", "--user", "demo")["shares"] == 3
    admin.run("share", "quota", "delete", "demo")
    assert admin.read("share", "quota", "show", "demo")["shares"] == 50


def test_administrators_list_the_shares_of_all_projects(admin, docs):
    assert admin.read("share", "list") == []
    (row,) = admin.read("share", "list", "--all-projects")
    assert (row["ID"], row["Host"]) == (docs["id"], "here@alpha#pool1")


def test_an_instance_says_where_it_is_and_goes_whatever_its_status(site, admin, demo, docs):
    made = demo.read("share", "create", "NFS", "1", "--name", "torn", "--wait")
    instance = ("share", "instance")
    (one,) = admin.read(*instance, "list", "--share", made["id"])
    places = admin.read(*instance, "export", "location", "list", one["ID"])
    assert [place["Is Admin Only"] for place in places] == [True, False, False]
    shown = admin.read(*instance, "export", "location", "show", one["ID"], places[0]["ID"])
    assert (shown["path"], shown["is_admin_only"]) == (places[0]["Path"], True)
    for who in ("demo", "demo-reader", "other"):
        with pytest.raises(Refused):
            Cloud(site.clouds, who).run(*instance, "delete", one["ID"])
    assert demo.read("share", "show", "torn")["status"] == "available"
    admin.run(*instance, "set", one["ID"], "--status", "error")
    admin.run(*instance, "delete", one["ID"], "--wait")
    wait_until(lambda: "torn" not in {row["Name"] for row in demo.read("share", "list")}, every_s=0.2)


def test_a_private_type_is_opened_to_a_project_and_closed_again(site, admin, demo, docs):
    admin.run("share", "type", "create", "hidden", "false", "--public", "false")
    access = ("share", "type", "access")
    assert admin.read(*access, "list", "hidden") == []
    admin.run(*access, "create", "hidden", site.keystone.project_id("demo"))
    assert admin.read(*access, "list", "hidden") == [{"Project ID": site.keystone.project_id("demo")}]
    assert demo.read("share", "type", "show", "hidden")["visibility"] == "private"
    with pytest.raises(Refused):
        Cloud(site.clouds, "other").read("share", "type", "show", "hidden")
    for who in ("demo", "demo-reader"):
        with pytest.raises(Refused, match="HTTP 403"):
            Cloud(site.clouds, who).run(*access, "delete", "hidden", site.keystone.project_id("demo"))
    admin.run(*access, "delete", "hidden", site.keystone.project_id("demo"))
    assert admin.read(*access, "list", "hidden") == []
    assert "hidden" not in {row["Name"] for row in demo.read("share", "type", "list")}
    admin.run("share", "type", "delete", "hidden")


@pytest.fixture(scope="module")
def tenant(admin):
    """A share type whose shares are on share servers."""
    spec = ("--extra-specs", "encryption_support=share_server")
    return admin.read("share", "type", "create", "tenant", "true", *spec)


def test_a_share_server_is_set_by_hand_and_its_subnet_is_described(site, admin, demo, tenant):
    reader, other = Cloud(site.clouds, "demo-reader"), Cloud(site.clouds, "other")
    network = demo.read("share", "network", "create", "--name", "green")["id"]
    words = ("--name", "hay", "--share-type", "tenant", "--share-network", "green", "--wait")
    made = demo.read("share", "create", "NFS", "1", *words, "--encryption-key-ref", KEY)
    assert (made["status"], made["encryption_key_ref"]) == ("available", KEY)
    (server,) = admin.read("share", "server", "list", "--share-network", "green")
    shown = admin.read("share", "server", "show", server["ID"])
    assert shown["encryption_key_ref"] == KEY
    (subnet,) = shown["share_network_subnet_ids"]
    its = ("share", "network", "subnet")
    demo.run(*its, "set", "green", subnet, "--property", "for=cows", "--property", "by=ann")
    demo.run(*its, "unset", "green", subnet, "--property", "by")
    assert reader.read(*its, "show", "green", subnet)["properties"] == {"for": "cows"}
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run(*its, "set", "green", subnet, "--property", "for=hens")
    with pytest.raises(Refused):
        other.run(*its, "set", network, subnet, "--property", "for=hens")
    assert demo.read(*its, "show", "green", subnet)["properties"] == {"for": "cows"}
    for status in ("error", "active"):
        admin.run("share", "server", "set", server["ID"], "--status", status)
        assert admin.read("share", "server", "show", server["ID"])["status"] == status
    admin.run("share", "server", "set", server["ID"], "--task-state", "migration_error")
    assert admin.read("share", "server", "show", server["ID"])["task_state"] == "migration_error"
    admin.run("share", "server", "set", server["ID"], "--task-state", "none")
    assert admin.read("share", "server", "show", server["ID"])["task_state"] is None
    with pytest.raises(Refused):
        demo.run("share", "server", "set", server["ID"], "--status", "error")
    demo.run("share", "delete", "hay", "--wait")
    demo.run("share", "network", "delete", "green")


def test_what_is_known_of_a_directory_is_unset(site, demo):
    reader, other = Cloud(site.clouds, "demo-reader"), Cloud(site.clouds, "other")
    service = ("share", "security", "service")
    words = ("--name", "staff", "--dns-ip", "10.20.0.9", "--server", "10.20.0.8", "--user", "ann", "--ou", "farm")
    made = demo.read(*service, "create", "active_directory", *words, "--domain", "farm.example")
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run(*service, "unset", "staff", "--user")
    with pytest.raises(Refused):
        other.run(*service, "unset", made["id"], "--user")
    demo.run(*service, "unset", "staff", "--dns-ip", "--server", "--user", "--ou")
    shown = reader.read(*service, "show", "staff")
    assert [shown[name] or None for name in ("dns_ip", "server", "user", "ou")] == [None] * 4
    assert shown["domain"] == "farm.example"
    demo.run(*service, "delete", "staff")
    assert reader.read(*service, "list") == []


def test_servers_are_found_by_the_catalog(site, demo, admin):
    project = site.keystone.project_id("demo")
    argv = [sys.executable, "-m", "abaca", "server", "add", "web-1", "--config-file", str(site.configuration)]
    argv += ["--project", project, "--address", "10.9.0.1"]
    subprocess.run(argv, capture_output=True, timeout=60, check=True)
    (row,) = demo.read("server", "list")
    assert (row["Name"], row["Networks"]) == ("web-1", {"default": ["10.9.0.1"]})
    assert demo.read("--os-compute-api-version", "2.97", "server", "show", "web-1")["project_id"] == project
    assert admin.read("server", "list") == []
    assert [row["Name"] for row in admin.read("server", "list", "--all-projects")] == ["web-1"]


@pytest.fixture(scope="module")
def kept(admin):
    """A share type whose shares have snapshots."""
    return admin.read("share", "type", "create", "kept", "false", "--snapshot-support", "true")


def test_what_is_on_a_back_end_is_adopted_and_abandoned_with_its_snapshots(admin, demo, kept):
    place = ("here@alpha#pool1", "NFS", "10.0.0.10:/dummy/ledgers", "--share-type", "kept")
    made = admin.read("share", "adopt", *place, "--driver-options", "size=3", "--name", "ledgers", "--wait")
    assert (made["status"], made["size"], made["host"]) == ("available", 3, "here@alpha#pool1")
    with pytest.raises(Refused, match="HTTP 409"):
        admin.run("share", "adopt", *place)
    with pytest.raises(Refused, match="HTTP 403"):
        demo.run("share", "adopt", *place)
    admin.run("share", "snapshot", "create", "ledgers", "--name", "june", "--wait")
    location = admin.read("share", "snapshot", "show", "june")["provider_location"]
    with pytest.raises(Refused, match="Failed to abandon"):
        admin.run("share", "abandon", "ledgers")
    admin.run("share", "snapshot", "abandon", "june", "--wait")
    found = admin.read("share", "snapshot", "adopt", "ledgers", location, "--name", "last-june", "--wait")
    assert (found["status"], found["size"]) == ("available", 3)
    admin.run("share", "snapshot", "delete", "last-june", "--wait")
    admin.run("share", "abandon", "ledgers", "--wait")
    assert admin.read("share", "list") == []


def test_what_is_not_there_is_not_adopted_and_a_message_says_why(admin, kept):
    place = ("here@alpha#pool1", "NFS", "10.0.0.10:/dummy/nowhere", "--share-type", "kept")
    lost = admin.read("share", "adopt", *place, "--name", "lost", "--wait")
    assert lost["status"] == "manage_error"
    (row,) = admin.read("share", "message", "list", "--resource-id", lost["id"])
    assert "nothing is at 10.0.0.10:/dummy/nowhere" in row["User Message"]
    admin.run("share", "abandon", "lost", "--wait")


def test_a_share_is_handed_from_one_project_to_another(site, admin, demo, docs):
    other = Cloud(site.clouds, "other")
    demo.run("share", "create", "NFS", "1", "--name", "thesis", "--property", "by=ann", "--wait")
    offer = demo.read("share", "transfer", "create", "thesis", "--name", "handover")
    assert (offer["resource_type"], offer["accepted"]) == ("share", False)
    (row,) = demo.read("share", "transfer", "list")
    assert (row["ID"], row["Name"]) == (offer["id"], "handover")
    assert demo.read("share", "transfer", "show", "handover")["resource_id"] == row["Resource Id"]
    assert other.read("share", "transfer", "list") == []
    with pytest.raises(Refused, match="auth key"):
        other.run("share", "transfer", "accept", offer["id"], "guessed")
    demo.run("share", "transfer", "delete", "handover")
    offer = demo.read("share", "transfer", "create", "thesis")
    other.run("share", "transfer", "accept", offer["id"], offer["auth_key"], "--clear-rules")
    wait_until(lambda: [row["Status"] for row in other.read("share", "list")] == ["available"], every_s=0.2)
    shown = other.read("share", "show", "thesis")
    assert (shown["project_id"], shown["properties"]) == (site.keystone.project_id("other"), {"by": "ann"})
    assert "thesis" not in {row["Name"] for row in demo.read("share", "list")}
    other.run("share", "delete", "thesis", "--wait")


def test_group_types_are_set_up_and_shown_to_whom_they_are_for(site, admin, demo, docs, kept):
    kind = ("share", "group", "type")
    made = admin.read(*kind, "create", "crowd", "kept", "default", "--public", "false")
    types = [row["ID"] for row in admin.read("share", "type", "list") if row["Name"] in ("kept", "default")]
    assert (made["visibility"], sorted(made["share_types"])) == ("private", sorted(types))
    assert demo.read(*kind, "list") == []
    admin.run(*kind, "access", "create", "crowd", "demo")
    (row,) = admin.read(*kind, "access", "list", "crowd")
    assert row["Project ID"] == site.keystone.project_id("demo")
    assert [row["Name"] for row in demo.read(*kind, "list")] == ["crowd"]
    assert Cloud(site.clouds, "other").read(*kind, "list") == []
    admin.run(*kind, "set", "crowd", "--group-specs", "tier=gold")
    assert admin.read(*kind, "show", "crowd")["group_specs"] == {"tier": "gold"}
    admin.run(*kind, "unset", "crowd", "tier")
    assert admin.read(*kind, "show", "crowd")["group_specs"] == {}
    with pytest.raises(Refused, match="HTTP 403"):
        demo.run(*kind, "delete", "crowd")
    with pytest.raises(Refused, match="in use by share group type"):
        admin.run("share", "type", "delete", "kept")
    admin.run(*kind, "access", "delete", "crowd", "demo")
    admin.run(*kind, "delete", "crowd")
    assert admin.read(*kind, "list", "--all") == []


@pytest.fixture(scope="module")
def able(admin):
    """A share type whose shares have all that snapshots are good for."""
    names = ("snapshot", "create-share-from-snapshot", "revert-to-snapshot", "mount-snapshot")
    words = [word for name in names for word in (f"--{name}-support", "true")]
    return admin.read("share", "type", "create", "able", "false", *words)


def test_a_snapshot_is_described_looked_into_and_mounted(site, admin, demo, able):
    demo.run("share", "create", "NFS", "1", "--name", "novel", "--share-type", "able", "--wait")
    snapshot = ("share", "snapshot")
    taken = demo.read(*snapshot, "create", "novel", "--name", "draft", "--property", "by=ann", "--wait")
    demo.run(*snapshot, "set", "draft", "--description", "First", "--property", "at=dawn")
    shown = demo.read(*snapshot, "show", "draft")
    assert (shown["description"], shown["properties"]) == ("First", {"by": "ann", "at": "dawn"})
    demo.run(*snapshot, "unset", "draft", "--description", "--property", "by")
    shown = demo.read(*snapshot, "show", "draft")
    assert (shown["description"], shown["properties"]) == (None, {"at": "dawn"})
    (one,) = admin.read(*snapshot, "instance", "list", "--snapshot", taken["id"])
    admin.run(*snapshot, "instance", "set", one["ID"], "--status", "error")
    assert admin.read(*snapshot, "instance", "show", one["ID"])["status"] == "error"
    admin.run(*snapshot, "instance", "set", one["ID"], "--status", "available")
    place = demo.read(*snapshot, "export", "location", "list", "draft")[0]
    assert place["ID"] in {
        row["ID"] for row in admin.read(*snapshot, "instance", "export", "location", "list", one["ID"])
    }
    assert demo.read(*snapshot, "export", "location", "show", "draft", place["ID"])["path"] == place["Path"]
    shown = admin.read(*snapshot, "instance", "export", "location", "show", one["ID"], place["ID"])
    assert shown["path"] == place["Path"]
    Cloud(site.clouds, "demo-reader").read(*snapshot, "show", "draft")
    for who, told in (("demo-reader", "HTTP 403"), ("other", "(?i)no share ?snapshot")):
        with pytest.raises(Refused, match=told):
            Cloud(site.clouds, who).run(*snapshot, "set", taken["id"], "--name", "theirs")
    demo.run(*snapshot, "delete", "draft", "--wait")
    demo.run("share", "delete", "novel", "--wait")


@pytest.fixture
def connect(site, tmp_path):
    """Says to a user's name how openstacksdk sees the service."""
    users = ("admin", "demo", "demo-reader", "other")
    known = {name: site.cloud(name) | {"shared_file_system_api_version": "2.82"} for name in users}
    command.write_clouds(tmp_path / "sdk.yaml", known)
    with contextlib.ExitStack() as stack:

        def connect(name):
            config = openstack.config.OpenStackConfig(config_files=[str(tmp_path / "sdk.yaml")], load_envvars=False)
            connection = openstack.connection.Connection(config=config.get_one(cloud=name))
            stack.callback(connection.close)
            return connection.shared_file_system

        yield connect


def test_the_library_takes_over_and_gives_up(connect, admin, kept):
    library = connect("admin")
    place = {"export_path": "10.0.0.10:/dummy/atlas", "service_host": "here@alpha#pool1"}
    made = library.manage_share("NFS", **place, name="atlas", share_type="kept", driver_options={"size": "2"})
    wait_until(lambda: library.get_share(made.id).status == "available", every_s=0.1)
    assert library.get_share(made.id).size == 2
    taken = library.create_share_snapshot(share_id=made.id, name="may")
    wait_until(lambda: library.get_share_snapshot(taken.id).status == "available", every_s=0.1)
    location = admin.read("share", "snapshot", "show", "may")["provider_location"]
    library.unmanage_share_snapshot(taken)
    wait_until(lambda: not list(library.share_snapshots()), every_s=0.1)
    again = library.manage_share_snapshot(made.id, location, name="last-may")
    wait_until(lambda: library.get_share_snapshot(again.id).status == "available", every_s=0.1)
    library.delete_share_snapshot(again.id)
    wait_until(lambda: not list(library.share_snapshots()), every_s=0.1)
    library.unmanage_share(made.id)
    wait_until(lambda: not list(library.shares()), every_s=0.1)


def test_the_library_describes_snapshots_and_goes_back_to_them(connect, able):
    library, operator = connect("demo"), connect("admin")
    share = library.create_share(name="diary", size=1, share_protocol="NFS", share_type="able")
    wait_until(lambda: library.get_share(share.id).status == "available", every_s=0.1)
    taken = library.create_share_snapshot(share_id=share.id, name="march")
    wait_until(lambda: library.get_share_snapshot(taken.id).status == "available", every_s=0.1)
    library.update_share_snapshot(taken.id, display_name="april")
    assert library.get_share_snapshot(taken.id).name == "april"
    library.set_share_snapshot_metadata(taken.id, by="ann", at="dawn")
    assert library.fetch_share_snapshot_metadata_item(taken.id, "by").metadata == {"by": "ann"}
    library.delete_share_snapshot_metadata(taken.id, ["by"])
    assert library.fetch_share_snapshot_metadata(taken.id).metadata == {"at": "dawn"}
    (one,) = operator.share_snapshot_instances(snapshot_id=taken.id)
    assert operator.get_share_snapshot_instance(one.id).snapshot_id == taken.id
    library.revert_share_to_snapshot(share.id, taken.id)
    wait_until(lambda: library.get_share(share.id).status == "available", every_s=0.1)
    operator.reset_share_snapshot_status(taken.id, "error")
    assert library.get_share_snapshot(taken.id).status == "error"
    library.delete_share_snapshot(taken.id)
    wait_until(lambda: not list(library.share_snapshots()), every_s=0.1)
    library.delete_share(share.id)
    wait_until(lambda: "diary" not in {one.name for one in library.shares()}, every_s=0.1)


def test_the_library_hands_a_share_over(connect, docs):
    giver, taker = connect("demo"), connect("other")
    made = giver.create_share(name="essay", size=1, share_protocol="NFS")
    wait_until(lambda: giver.get_share(made.id).status == "available", every_s=0.1)
    offer = giver.create_share_transfer(share_id=made.id, name="gift")
    assert giver.get_share_transfer(offer.id).name == "gift"
    # the library's own list of them reads another key than the API has
    assert giver.get_share_transfer(offer.id).resource_id == made.id
    giver.delete_share_transfers(offer)
    offer = giver.create_share_transfer(share_id=made.id)
    taker.accept_share_transfer(offer.id, auth_key=offer.auth_key, clear_access_rules=True)
    wait_until(lambda: [one.status for one in taker.shares()] == ["available"], every_s=0.1)
    with pytest.raises(exceptions.NotFoundException):
        giver.get_share(made.id)
    taker.delete_share(made.id)
    wait_until(lambda: not list(taker.shares()), every_s=0.1)


def test_the_library_describes_a_share_and_takes_its_instance_away(connect, docs):
    member, reader, operator, other = (connect(name) for name in ("demo", "demo-reader", "admin", "other"))
    share = member.create_share(name="map", size=1, share_protocol="NFS", metadata={"by": "ann"})
    wait_until(lambda: member.get_share(share.id).status == "available", every_s=0.1)
    assert member.set_share_metadata(share.id, at="dawn").metadata["at"] == "dawn"
    assert reader.get_share_metadata(share.id).metadata == {"by": "ann", "at": "dawn"}
    assert reader.get_share_metadata_item(share.id, "by").metadata == {"by": "ann"}
    with pytest.raises(exceptions.ForbiddenException):
        reader.set_share_metadata(share.id, at="dusk")
    with pytest.raises(exceptions.NotFoundException):
        other.get_share_metadata(share.id)
    member.delete_share_metadata(share.id, ["by"], ignore_missing=False)
    assert member.get_share_metadata(share.id).metadata == {"at": "dawn"}
    (one,) = [one for one in operator.share_instances() if one.share_id == share.id]
    with pytest.raises(exceptions.ForbiddenException):
        member.delete_share_instance(one.id)
    operator.delete_share_instance(one.id, ignore_missing=False)
    wait_until(lambda: "map" not in {one.name for one in member.shares()}, every_s=0.1)


def test_the_library_sets_the_quotas_of_everybody(connect, docs):
    member, operator = connect("demo"), connect("admin")
    before = operator.get_quota_class_set("default").shares
    assert operator.update_quota_class_set("default", shares=7).shares == 7
    assert operator.get_quota_class_set("default").shares == 7
    with pytest.raises(exceptions.ForbiddenException):
        member.update_quota_class_set("default", shares=9)
    assert operator.update_quota_class_set("default", shares=before).shares == before
    assert {"default"} <= {one.name for one in member.share_types()}


def test_another_project_sees_nothing(site, docs):
    other = Cloud(site.clouds, "other")
    assert other.read("share", "list") == []
    with pytest.raises(Refused, match=r"(?i)no share"):
        other.run("share", "show", docs["id"])


def test_a_reader_looks_and_does_not_touch(site, docs):
    reader = Cloud(site.clouds, "demo-reader")
    assert reader.read("share", "show", "docs")["id"] == docs["id"]
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run("share", "create", "NFS", "1")
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run("share", "delete", docs["id"])


def test_a_wrong_password_gets_no_token(site):
    clouds = site.directory / "stranger.yaml"
    command.write_clouds(clouds, {"stranger": site.cloud("demo", password="guessed")})
    with pytest.raises(Refused, match="HTTP 401"):
        Cloud(clouds, "stranger").run("share", "list")


@pytest.mark.parametrize(
    "token", [None, "", "gAAAAABunknown", "x" * 6000, "a b\tc"], ids=["no", "empty", "unknown", "long", "odd"]
)
def test_a_token_that_keystone_does_not_know_is_no_token(site, token):
    status, headers, body = site.ask(token)
    assert status == 401
    assert headers["www-authenticate"] == f'Keystone uri="{site.keystone.auth_url}"'
    assert body["error"]["code"] == 401


def test_a_token_of_another_project_opens_nothing_of_this_one(site, docs):
    token = site.keystone.token("other")
    assert site.ask(token, path=f"/v2/shares/{docs['id']}")[0] == 404
    assert site.ask(token, path=f"/v2/{site.keystone.project_id('demo')}/shares")[0] == 400


def test_a_revoked_token_is_refused(site):
    token = site.keystone.token("demo")
    site.keystone.revoke(token)
    assert site.ask(token)[0] == 401


def test_a_token_is_good_until_its_time_has_come_remembered_or_not(site):
    token = site.keystone.brief_token("demo", lives_s=5)
    assert site.ask(token)[0] == 200
    wait_until(lambda: site.ask(token)[0] == 401)


def test_keystone_may_be_away_for_a_moment(site, docs):
    """Who was known stays known for a minute; who is new is asked to come back."""
    known, new = site.keystone.token("demo"), site.keystone.token("demo")
    assert site.ask(known)[0] == 200
    site.keystone.stop()
    try:
        status, headers, body = site.ask(new)
        assert (status, headers["retry-after"]) == (503, "5")
        assert (
            body["serviceUnavailable"]["message"]
            == "Keystone does not answer at the moment; try again in some seconds."
        )
        assert site.ask(known)[0] == 200
    finally:
        site.keystone.start()
    assert site.ask(new)[0] == 200
