# SPDX-License-Identifier: Apache-2.0
"""A back end's settings become its driver, or an error that says what to write instead."""

import sys
from pathlib import Path

import pytest

from abaca import errors
from abaca.drivers import contract, load
from abaca.drivers.dummy import Dummy
from abaca.drivers.local import Local


def backend(**more):
    values = {"name": "b1", "host": "h@b1", "share_backend_name": "B1", "state_dir": Path("/nowhere")}
    return contract.Backend(**values | more)


def test_a_name_is_a_module_and_its_class():
    assert (load.driver_class("dummy"), load.driver_class("local")) == (Dummy, Local)
    assert {"dummy", "local"} <= set(load.names())


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("dumy", "Did you mean 'dummy'?"),
        ("contract", "Known"),
        ("wrappers", "Known"),
        ("../local", "'local'"),
        ("", "K"),
    ],
)
def test_a_name_that_is_no_driver_is_answered_with_one_that_is(name, mend):
    with pytest.raises(errors.ConfigError) as refused:
        load.driver_class(name)
    assert mend in str(refused.value)


def test_a_driver_from_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    outside(tmp_path, monkeypatch, "from abaca.drivers.dummy import Dummy\nclass Other(Dummy):\n    '''Other.'''\n")
    assert load.driver_class("other").__name__ == "Other"
    assert "other" in load.names()
    with pytest.raises(errors.ConfigError, match="broken"):
        load.driver_class("broken")


def outside(tmp_path, monkeypatch, source):
    """Have a package that is not ours, with the class `Other` as the driver `other`."""
    (tmp_path / "elsewhere.py").write_text(source)
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[abaca.drivers]\nother = elsewhere:Other\nbroken = elsewhere:__name__\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_strings_become_typed_options():
    section = {
        "pool_count": " 3 ",
        "thin_provisioning": "No",
        "export_ips": "10.0.0.1, fd77::1",
        "delays": "create:0.2, all:1",
        "failures": "create:Busy:2,delete:Refused",
    }
    options = load.driver(backend(), "dummy", section).options
    assert (options.pool_count, options.thin_provisioning, options.export_ips) == (3, False, ("10.0.0.1", "fd77::1"))
    assert (options.delays, options.failures) == ({"create": 0.2, "all": 1.0}, ("create:Busy:2", "delete:Refused"))


@pytest.mark.parametrize(
    ("driver", "section", "said"),
    [
        ("dummy", {"pool_cont": "1"}, "[b1] has no option 'pool_cont'. Did you mean 'pool_count'?"),
        ("dummy", {"pool_count": "many"}, "pool_count = many"),
        ("dummy", {"pool_count": "0"}, ">= 1"),
        ("dummy", {"thin_provisioning": "perhaps"}, "thin_provisioning = perhaps"),
        ("dummy", {"delays": "create"}, "'create' is not name:value"),
        ("dummy", {"delays": "crate:1"}, "the nearest is 'create'"),
        ("dummy", {"failures": "create:Bussy"}, "one of Busy, Full, Gone, Refused, UnderWay, Unreachable"),
        ("dummy", {"failures": "create:Busy:x"}, "method:Error:times"),
        ("dummy", {"access_types": "ip,foo"}, "foo"),
        ("dummy", {"protocols": "NFS,FTP"}, "FTP"),
        ("dummy", {"protocols": ""}, "must name a protocol"),
        ("dummy", {"replication_type": "odd"}, "odd"),
        ("local", {"export_ips": "10.0.0"}, "10.0.0"),
        ("local", {"export_ips": ""}, "must name an address"),
        ("local", {"nfs_minor_versions": "3"}, "nfs_minor_versions = 3"),
        ("local", {"ganesha_port": "70000"}, "<= 65535"),
        ("local", {"segment_bridges": "vlan-101"}, "'vlan-101' is not name:value"),
        ("local", {"segment_bridges": "vlan-101:a bridge"}, "no name of a bridge"),
        ("local", {"server_memory_mib": "100"}, ">= 256"),
        ("local", {"grace_s": "1"}, ">= 2"),
        ("local", {"root_mode": "rwx"}, "root_mode = rwx"),
    ],
)
def test_an_option_that_cannot_be_taken_is_explained(driver, section, said):
    with pytest.raises(errors.ConfigError) as refused:
        load.driver(backend(), driver, section)
    assert said in str(refused.value)


def test_share_servers_are_not_asked_of_a_driver_without_them(tmp_path, monkeypatch):
    outside(tmp_path, monkeypatch, "from abaca.drivers import contract\nclass Other(contract.Driver):\n    '''O.'''\n")
    assert load.driver_class("other").__name__ == "Other"
    with pytest.raises(errors.ConfigError, match="share servers"):
        load.driver(backend(driver_handles_share_servers=True), "other", {})


@pytest.mark.parametrize("name", ["dummy", "glusterfs", "local"])
def test_what_is_announced_is_as_agreed(name, golden):
    announced = load.capabilities(load.driver(backend(), name, {}))
    golden(f"tests/golden/drivers/{name}.txt", "\n".join(f"{key}: {announced[key]}" for key in sorted(announced)))


def test_every_driver_answers_for_the_same_names():
    announced = [set(load.capabilities(load.driver(backend(), name, {}))) for name in load.names()]
    assert all(names == announced[0] for names in announced)


def test_what_a_class_inherits_is_what_it_announces():
    local, dummy = load.capabilities(Local), load.capabilities(Dummy)
    assert local["snapshot_support"]
    assert (local["replication_type"], dummy["replication_type"]) == (None, "dr")
    assert (local["security_service_update_support"], dummy["security_service_update_support"]) == (False, True)


@pytest.mark.parametrize("name", ["dummy", "local"])
def test_changing_the_networks_of_share_servers_is_announced_only_where_there_are_some(name):
    names = ("share_server_multiple_subnet_support", "network_allocation_update_support")
    for handles in (True, False):
        announced = load.capabilities(load.driver(backend(driver_handles_share_servers=handles), name, {}))
        assert [announced[one] for one in names] == [handles, handles]


def test_the_dummy_announces_the_protocols_and_the_replication_that_its_options_name():
    section = {"protocols": "CEPHFS, NFS", "replication_type": "readable"}
    announced = load.capabilities(load.driver(backend(), "dummy", section))
    assert (announced["storage_protocol"], announced["replication_type"]) == ("CEPHFS_NFS", "readable")


@pytest.mark.parametrize(("ips", "families"), [("10.0.0.1", (True, False)), ("10.0.0.1,fd77::1", (True, True))])
def test_the_address_families_are_those_of_the_export_locations(ips, families):
    announced = load.capabilities(load.driver(backend(), "local", {"export_ips": ips}))
    assert (announced["ipv4_support"], announced["ipv6_support"]) == families
