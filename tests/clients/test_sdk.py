# SPDX-License-Identifier: Apache-2.0
"""openstacksdk does with Abaca what its users do with it; without Keystone it needs a clouds.yaml and nothing else."""

import contextlib

import openstack
import pytest
from openstack import exceptions

from tests.clients import command
from tests.clients.conftest import PROJECT
from tests.conftest import wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

MICROVERSION = "2.82"
WAIT_S = 30


@pytest.fixture(scope="module")
def connect(standalone):
    """Says to a user's name how the library sees the service."""
    file = standalone.directory / "sdk.yaml"
    clouds = command.read_clouds(standalone.clouds)
    command.write_clouds(
        file, {name: {**one, "shared_file_system_api_version": MICROVERSION} for name, one in clouds.items()}
    )
    with contextlib.ExitStack() as stack:

        def connect(name):
            config = openstack.config.OpenStackConfig(config_files=[str(file)], load_envvars=False)
            connection = openstack.connection.Connection(config=config.get_one(cloud=name))
            stack.callback(connection.close)
            return connection.shared_file_system

        yield connect


@pytest.fixture(scope="module")
def admin(connect):
    return connect("admin")


@pytest.fixture(scope="module")
def member(connect):
    return connect("member")


@pytest.fixture(scope="module")
def kind(admin):
    """A share type."""
    made = admin.create_share_type(
        "by-sdk", extra_specs={"driver_handles_share_servers": "False", "snapshot_support": "True"}
    )
    yield made
    admin.delete_share_type(made, ignore_missing=False)


@pytest.fixture(scope="module")
def share(member, kind):
    """A share that is there for the tests here."""
    made = member.create_share(name="sdk", size=1, share_protocol="NFS", share_type=kind.id, metadata={"team": "paper"})
    member.wait_for_status(made, "available", ["error"], interval=0.2, wait=WAIT_S)
    yield member.get_share(made.id)
    member.delete_share(made.id, ignore_missing=False)
    member.wait_for_delete(made, interval=0.2, wait=WAIT_S)


def test_a_share_has_all_that_the_library_knows_of(share, kind):
    assert (share.name, share.size, share.status, share.share_protocol) == ("sdk", 1, "available", "NFS")
    assert (share.share_type, share.share_type_name, share.project_id) == (kind.id, "by-sdk", PROJECT)
    assert (share.is_snapshot_supported, share.is_replicated, share.is_public) == (True, False, False)
    assert (share.metadata, share.progress, share.access_rules_status) == ({"team": "paper"}, "100%", "active")


def test_shares_are_listed_and_found(member, share):
    assert [one.id for one in member.shares(name="sdk")] == [share.id]
    assert [one.id for one in member.shares(details=False)] == [share.id]
    assert member.find_share("sdk", ignore_missing=False).id == share.id
    assert member.find_share("nobody") is None


def test_a_list_is_read_page_by_page(member, kind):
    made = [
        member.create_share(name=f"page-{number}", size=1, share_protocol="NFS", share_type=kind.id)
        for number in range(3)
    ]
    wait_until(lambda: {one.status for one in member.shares()} == {"available"}, WAIT_S)
    names = [one.name for one in member.shares(limit=1) if one.name.startswith("page-")]
    assert sorted(names) == ["page-0", "page-1", "page-2"]
    for one in made:
        member.delete_share(one)
    wait_until(lambda: not [one for one in member.shares() if one.name.startswith("page-")], WAIT_S)


def test_a_share_is_renamed(member, share):
    changed = member.update_share(share.id, display_name="renamed", display_description="by the library")
    assert (changed.name, changed.description) == ("renamed", "by the library")
    member.update_share(share.id, display_name="sdk")


def test_a_share_grows_and_shrinks(member, share):
    for size in (4, 2):
        member.resize_share(share.id, size)
        wait_until(lambda: member.get_share(share.id).status == "available", WAIT_S)
        assert member.get_share(share.id).size == size


def test_metadata_is_added_replaced_and_removed(member, share):
    assert member.create_share_metadata(share.id, floor="2").metadata["floor"] == "2"
    assert member.fetch_share_metadata_item(share.id, "floor").metadata == {"floor": "2"}
    assert member.update_share_metadata(share.id, {"only": "this"}, replace=True).metadata == {"only": "this"}
    member.delete_share_metadata(share.id, ["only"])
    assert member.fetch_share_metadata(share.id).metadata == {}


def test_access_rules_come_and_go(member, share):
    made = member.create_access_rule(share.id, access_type="ip", access_to="10.3.0.0/16", access_level="ro")
    wait_until(lambda: member.get_access_rule(made.id).state == "active", WAIT_S)
    shown = member.get_access_rule(made.id)
    assert (shown.access_to, shown.access_level, shown.share_id) == ("10.3.0.0/16", "ro", share.id)
    assert [rule.id for rule in member.access_rules(share.id)] == [made.id]
    member.delete_access_rule(made.id, share.id, ignore_missing=False)
    wait_until(lambda: not list(member.access_rules(share.id)), WAIT_S)


def test_export_locations_are_listed_and_shown(member, share):
    first, second = member.export_locations(share.id)
    assert (first.path.partition(":")[0], second.path.partition(":")[0]) == ("10.0.0.10", "10.0.0.20")
    assert member.get_export_location(first.id, share.id).is_preferred is True


def test_administrators_look_at_instances_and_set_their_status(admin, share):
    (instance,) = [one for one in admin.share_instances() if one.share_id == share.id]
    assert admin.get_share_instance(instance.id).host == "here@alpha#pool1"
    admin.reset_share_instance_status(instance.id, "error")
    assert admin.get_share_instance(instance.id).status == "error"
    admin.reset_share_status(share.id, "available")
    assert admin.get_share_instance(instance.id).status == "available"


def test_limits_zones_pools_and_services_are_listed(admin, member, share):
    assert len(list(member.limits())) == 1
    assert [zone.name for zone in member.availability_zones()] == ["nova"]
    (pool,) = admin.storage_pools(backend="alpha")
    assert (pool.name, pool.capabilities["share_backend_name"]) == ("here@alpha#pool1", "alpha")
    (service,) = admin.services()
    assert (service.host, service.state, service.status) == ("here@alpha", "up", "enabled")


def test_a_service_is_disabled_and_enabled(admin, share):
    (service,) = admin.services()
    where = (service.host, service.binary)
    assert admin.disable_service(service, *where).status == "disabled"
    assert admin.enable_service(service, *where).status == "enabled"


def test_quotas_are_shown_set_and_reverted(admin, share):
    assert admin.get_quota_set(PROJECT).shares == 50
    assert admin.update_quota_set(PROJECT, shares=7).shares == 7
    assert admin.get_quota_set(PROJECT).shares == 7
    admin.revert_quota_set(PROJECT)
    assert admin.get_quota_set(PROJECT).shares == 50
    assert admin.get_quota_class_set("default").shares == 50


def test_types_are_changed(admin, kind):
    changed = admin.update_share_type_extra_specs(kind.id, tier="gold")
    assert changed.extra_specs["tier"] == "gold"
    admin.delete_share_type_extra_spec_property(kind.id, "tier")
    assert admin.update_share_type(kind.id, description="made by the library").description == "made by the library"
    assert admin.get_share_type(kind.id).extra_specs == kind.extra_specs


def test_a_share_in_error_leaves_a_message(admin, member):
    odd = admin.create_share_type("odd-sdk", extra_specs={"driver_handles_share_servers": "False", "colour": "mauve"})
    made = member.create_share(name="odd", size=1, share_protocol="NFS", share_type=odd.id)
    with pytest.raises(exceptions.ResourceFailure):
        member.wait_for_status(made, "available", ["error"], interval=0.2, wait=WAIT_S)
    (message,) = member.user_messages(resource_id=made.id)
    assert (message.detail_id, message.resource_type) == ("008", "SHARE")
    assert "no pool has the capabilities" in member.get_user_message(message.id).user_message
    member.delete_user_message(message.id, ignore_missing=False)
    assert list(member.user_messages(resource_id=made.id)) == []
    member.delete_share(made, ignore_missing=False)
    admin.delete_share_type(odd, ignore_missing=False)


def test_the_recycle_bin_is_used(member, kind):
    made = member.create_share(name="bin", size=1, share_protocol="NFS", share_type=kind.id)
    member.wait_for_status(made, "available", ["error"], interval=0.2, wait=WAIT_S)
    member.soft_delete_share(made.id)
    assert made.id not in {one.id for one in member.shares()}
    member.restore_share(made.id)
    assert made.id in {one.id for one in member.shares()}
    member.delete_share(made.id)
    member.wait_for_delete(made, interval=0.2, wait=WAIT_S)


def test_refusals_are_the_librarys_own_errors(connect, share):
    reader, other = connect("reader"), connect("other")
    with pytest.raises(exceptions.ForbiddenException):
        reader.create_share(size=1, share_protocol="NFS")
    with pytest.raises(exceptions.NotFoundException):
        other.get_share(share.id)
    with pytest.raises(exceptions.BadRequestException, match="size"):
        connect("member").create_share(size=0, share_protocol="NFS")
