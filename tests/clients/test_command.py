# SPDX-License-Identifier: Apache-2.0
"""The unmodified `openstack` command does with Abaca what its users do with it, without a Keystone."""

import pytest

from tests.clients.command import Cloud, Refused, basic, write_clouds
from tests.clients.conftest import PROJECT

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def docs(member, default_type):
    """A share that most tests here look at, and leave as they found it."""
    words = ("--name", "docs", "--description", "All of them", "--property", "team=paper")
    return member.read("share", "create", "NFS", "1", *words, "--wait")


def test_a_share_is_created_and_waited_for(docs, default_type):
    assert (docs["status"], docs["size"], docs["name"], docs["description"]) == ("available", 1, "docs", "All of them")
    assert (docs["share_type"], docs["share_type_name"]) == (default_type["id"], "default")
    assert (docs["metadata"], docs["progress"], docs["is_public"]) == ({"team": "paper"}, "100%", False)


def test_a_share_is_listed_and_found_by_what_is_known_of_it(member, docs):
    (row,) = member.read("share", "list", "--name", "docs", "--property", "team=paper", "--status", "available")
    assert (row["ID"], row["Name"], row["Size"], row["Status"]) == (docs["id"], "docs", 1, "available")
    assert (row["Share Proto"], row["Share Type Name"], row["Host"]) == ("NFS", "default", "")
    assert member.read("share", "list", "--name", "other") == []


def test_the_long_list_shows_administrators_where_a_share_is(admin, docs):
    (row,) = admin.read("share", "list", "--long", "--all-projects", "--name", "docs")
    assert row["Host"] == "here@alpha#pool1"
    assert row["Properties"] == {"team": "paper"}


def test_a_share_is_shown_by_its_name(member, docs):
    shown = member.read("share", "show", "docs")
    assert (shown["id"], shown["properties"]) == (docs["id"], {"team": "paper"})
    assert "path = 10.0.0.10:/" in shown["export_locations"]
    assert "11.0.0.11" not in shown["export_locations"]


def test_names_and_properties_are_set_and_unset(admin, docs):
    """As administrator: with every `share set` the command asks for reset_task_state, which users may not."""
    admin.run("share", "set", "docs", "--name", "papers", "--description", "New", "--property", "floor=2")
    admin.run("share", "unset", "papers", "--property", "team")
    shown = admin.read("share", "show", "papers")
    assert (shown["id"], shown["description"], shown["properties"]) == (docs["id"], "New", {"floor": "2"})
    admin.run("share", "set", docs["id"], "--name", "docs", "--property", "team=paper")
    assert admin.read("share", "properties", "show", "docs") == {"floor": "2", "team": "paper"}
    admin.run("share", "unset", docs["id"], "--name", "--description")
    shown = admin.read("share", "show", docs["id"])
    assert (shown["name"], shown["description"]) == (None, None)
    admin.run("share", "set", docs["id"], "--name", "docs")


def test_what_is_not_served_yet_says_so_and_its_list_is_empty(member):
    assert member.read("share", "group", "list") == []
    with pytest.raises(Refused, match="Share groups are not served here yet"):
        member.run("share", "group", "create", "--name", "three")


def test_a_share_grows_and_shrinks(member, docs):
    member.run("share", "resize", "docs", "3", "--wait")
    assert member.read("share", "show", "docs")["size"] == 3
    member.run("share", "resize", "docs", "1", "--wait")
    shown = member.read("share", "show", "docs")
    assert (shown["size"], shown["status"]) == (1, "available")


def test_access_is_given_looked_at_changed_and_taken_away(member, docs):
    words = ("ip", "10.1.2.0/24", "--access-level", "ro", "--properties", "who=me", "--wait")
    made = member.read("share", "access", "create", "docs", *words)
    assert (made["state"], made["access_to"], made["access_level"]) == ("active", "10.1.2.0/24", "ro")
    (row,) = member.read("share", "access", "list", "docs")
    assert (row["ID"], row["Access To"], row["State"]) == (made["id"], "10.1.2.0/24", "active")
    member.run("share", "access", "set", made["id"], "--access-level", "rw", "--property", "why=work")
    shown = member.read("share", "access", "show", made["id"])
    assert (shown["access_level"], shown["properties"]) == ("rw", "who : me\nwhy : work")
    member.run("share", "access", "unset", made["id"], "--property", "why")
    member.run("share", "access", "delete", "docs", made["id"], "--wait")
    assert member.read("share", "access", "list", "docs") == []


def test_the_same_access_twice_is_refused_with_a_reason(member, docs):
    made = member.read("share", "access", "create", "docs", "ip", "10.9.9.9")
    with pytest.raises(Refused, match="HTTP 400"):
        member.run("share", "access", "create", "docs", "ip", "10.9.9.9")
    member.run("share", "access", "delete", "docs", made["id"], "--wait")


def test_where_a_share_is_exported_is_listed_shown_and_labelled(member, docs):
    first, second = member.read("share", "export", "location", "list", "docs")
    assert (first["Path"].partition(":")[0], second["Path"].partition(":")[0]) == ("10.0.0.10", "10.0.0.20")
    assert (first["Preferred"], second["Preferred"]) == (True, False)
    member.run("share", "export", "location", "set", "docs", first["ID"], "--property", "speed=fast")
    shown = member.read("share", "export", "location", "show", "docs", first["ID"])
    assert (shown["path"], shown["properties"]) == (first["Path"], {"speed": "fast"})
    member.run("share", "export", "location", "unset", "docs", first["ID"], "--property", "speed")


def test_administrators_see_the_instances_behind_a_share(admin, docs):
    (row,) = admin.read("share", "instance", "list", "--share", docs["id"])
    assert (row["Share ID"], row["Host"], row["Status"]) == (docs["id"], "here@alpha#pool1", "available")
    shown = admin.read("share", "instance", "show", row["ID"])
    assert (shown["share_id"], shown["access_rules_status"], shown["progress"]) == (docs["id"], "active", "100%")
    paths = admin.read("share", "instance", "export", "location", "list", row["ID"])
    assert [path["Is Admin Only"] for path in paths] == [True, False, False]


def test_a_status_is_set_by_hand(admin, docs):
    admin.run("share", "set", "docs", "--status", "error")
    (row,) = admin.read("share", "instance", "list", "--share", docs["id"])
    assert row["Status"] == "error"
    admin.run("share", "instance", "set", row["ID"], "--status", "available")
    assert admin.read("share", "show", "docs")["status"] == "available"


def test_limits_say_what_may_be_used_and_what_is(member, docs):
    limits = {row["Name"]: row["Value"] for row in member.read("share", "limits", "show", "--absolute")}
    assert (limits["maxTotalShares"], limits["maxTotalShareGigabytes"]) == (50, 1000)
    assert (limits["totalSharesUsed"], limits["totalShareGigabytesUsed"]) == (1, 1)
    assert member.read("share", "limits", "show", "--rate") == []


def test_administrators_see_the_pools_and_what_they_can(admin, default_type):
    (pool,) = admin.read("share", "pool", "list", "--detail", "--backend", "alpha")
    assert (pool["Name"], pool["Host"], pool["Backend"], pool["Pool"]) == ("here@alpha#pool1", "here", "alpha", "pool1")
    assert pool["Capabilities"]["total_capacity_gb"] == 1000000
    assert admin.read("share", "pool", "list", "--backend", "beta") == []


def test_a_service_is_listed_and_taken_out_of_the_choice(admin, default_type):
    admin.run("share", "service", "set", "here@alpha", "manila-share", "--disable", "--disable-reason", "new disks")
    (row,) = admin.read("share", "service", "list")
    assert (row["Binary"], row["Host"], row["State"]) == ("manila-share", "here@alpha", "up")
    assert (row["Status"], row["Disabled Reason"]) == ("disabled", "new disks")
    admin.run("share", "service", "set", "here@alpha", "manila-share", "--enable")
    assert [row["Status"] for row in admin.read("share", "service", "list", "--status", "enabled")] == ["enabled"]


def test_availability_zones_are_listed(member, default_type):
    (zone,) = member.read("share", "availability", "zone", "list")
    assert zone["Name"] == "nova"


def test_types_are_made_described_changed_and_removed(admin, member):
    specs = ("--extra-specs", "tier=gold", "--snapshot-support", "true", "--description", "fast")
    made = admin.read("share", "type", "create", "gold", "false", *specs, "--public", "false")
    assert made["optional_extra_specs"] == {"tier": "gold", "snapshot_support": "True"}
    with pytest.raises(Refused):
        member.read("share", "type", "show", "gold")
    admin.run("share", "type", "access", "create", "gold", PROJECT)
    assert member.read("share", "type", "show", "gold")["visibility"] == "private"
    admin.run("share", "type", "set", "gold", "--extra-specs", "tier=silver", "--name", "silver")
    admin.run("share", "type", "unset", "silver", "snapshot_support")
    listed = {row["Name"]: row for row in admin.read("share", "type", "list", "--all")}
    assert listed["silver"]["Optional Extra Specs"] == {"tier": "silver"}
    admin.run("share", "type", "delete", "silver")
    assert "silver" not in {row["Name"] for row in admin.read("share", "type", "list", "--all")}


def test_a_share_that_no_pool_can_hold_says_why_and_goes_by_force(admin, member, default_type):
    admin.run("share", "type", "create", "odd", "false", "--extra-specs", "colour=mauve")
    made = member.read("share", "create", "NFS", "1", "--name", "odd", "--share-type", "odd", "--wait")
    assert made["status"] == "error"
    (row,) = member.read("share", "message", "list", "--resource-id", made["id"])
    assert (row["Resource Type"], row["Action ID"], row["Detail ID"]) == ("SHARE", "001", "008")
    assert "no pool has the capabilities" in row["User Message"]
    shown = member.read("share", "message", "show", row["ID"])
    assert (shown["resource_id"], shown["user_message"]) == (made["id"], row["User Message"])
    member.run("share", "message", "delete", row["ID"])
    assert member.read("share", "message", "list", "--resource-id", made["id"]) == []
    admin.run("share", "delete", "odd", "--force", "--wait")
    admin.run("share", "type", "delete", "odd")


def test_a_share_waits_in_the_recycle_bin_and_comes_back(member, default_type):
    made = member.read("share", "create", "NFS", "1", "--name", "bin", "--wait")
    member.run("share", "delete", "bin", "--soft")
    (row,) = member.read("share", "list", "--soft-deleted")
    assert row["ID"] == made["id"]
    member.run("share", "restore", made["id"])
    member.run("share", "delete", "bin", "--wait")
    with pytest.raises(Refused, match=r"(?i)no share"):
        member.run("share", "show", made["id"])


def test_other_projects_and_readers_are_kept_out(standalone, docs):
    reader, other = Cloud(standalone.clouds, "reader"), Cloud(standalone.clouds, "other")
    assert reader.read("share", "show", "docs")["id"] == docs["id"]
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run("share", "delete", docs["id"])
    assert other.read("share", "list") == []
    with pytest.raises(Refused, match=r"(?i)no share"):
        other.run("share", "show", docs["id"])
    with pytest.raises(Refused, match="HTTP 403"):
        other.run("share", "pool", "list")


def test_a_wrong_password_is_told_as_such(standalone):
    clouds = standalone.directory / "stranger.yaml"
    write_clouds(clouds, {"stranger": basic(standalone.url, "member", "guessed")})
    with pytest.raises(Refused, match="HTTP 401"):
        Cloud(clouds, "stranger").run("share", "list")


def test_older_microversions_are_spoken_too(member, docs):
    (row,) = member.read("--os-share-api-version", "2.0", "share", "list", "--name", "docs")
    assert (row["ID"], row["Status"]) == (docs["id"], "available")


def test_a_share_is_deleted_and_waited_for(member, docs):
    member.run("share", "delete", "docs", "--wait")
    assert member.read("share", "list") == []
