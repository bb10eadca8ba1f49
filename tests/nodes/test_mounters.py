# SPDX-License-Identifier: Apache-2.0
"""What every mounter promises: a new protocol gets a line in HARNESSES and all of this runs for it."""

import importlib
import inspect
import pkgutil

import pytest

from abaca import nodes
from abaca.nodes import contract, distributions, glusterfs, nfs, persistence
from abaca.nodes.contract import Mount

HARNESSES = {
    "nfs": {
        "mounter": nfs.Nfs(),
        "sources": ["10.0.0.10:/shares/x", "[fd77::1]:/shares/x", "nas-1.example.org:/", "10.0.0.10:/a b/ü"],
        "no_sources": [
            "",
            "/shares/x",
            "10.0.0.10:shares",
            "fd77::1:/x",
            "[fd77::zz]:/x",
            "-o:/x",
            "host:/x\ny",
            "host:/x\0",
            "host:/x\\040y",
            "host name:/x",
            "$(id):/x",
            "host:/" + "x" * 1024,
        ],
        "waits": ("hard", "timeo=", "retrans="),
    },
    "glusterfs": {
        "mounter": glusterfs.Glusterfs(),
        "sources": ["10.0.0.10:/abaca_x", "gl-1.example.org:/volume", "10.0.0.10:/volume/a/b.c"],
        "no_sources": [
            "",
            "/volume",
            "10.0.0.10:",
            "10.0.0.10:/",
            "[fd77::1]:/volume",
            "-o:/volume",
            "host:/vo lume",
            "host:/volume,log-file=x",
            "host:/volume/../other",
            "host:/volume\nx",
            "host:/vol*",
            "host name:/volume",
            "$(id):/volume",
            "host:/" + "x" * 256,
        ],
        "waits": (),
    },
}


@pytest.fixture(params=HARNESSES.values(), ids=HARNESSES)
def harness(request):
    return request.param


@pytest.fixture
def mounter(harness):
    return harness["mounter"]


def wanted(harness, **more):
    values = {"name": "a1", "protocol": harness["mounter"].protocols[0], "source": harness["sources"][0]}
    return Mount(**values | {"mount_point": "/mnt/x"} | more)


def test_every_shipped_mounter_has_a_harness():
    modules = [importlib.import_module(f"abaca.nodes.{one.name}") for one in pkgutil.iter_modules(nodes.__path__)]
    shipped = {
        module.__name__.rpartition(".")[2]
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, contract.Mounter) and value.__module__ == module.__name__
    }
    assert shipped - {"contract"} == set(HARNESSES)


def test_its_sources_are_taken(harness, mounter):
    assert [mounter.check(source) for source in harness["sources"]] == [None] * len(harness["sources"])


def test_what_is_no_source_is_refused_with_the_reason(harness, mounter):
    for source in harness["no_sources"]:
        assert mounter.check(source), source


def test_its_options_are_words_that_begin_with_the_level(harness, mounter):
    for is_read_only, level in ((True, "ro"), (False, "rw")):
        options = mounter.options(wanted(harness, is_read_only=is_read_only))
        assert options[0] == level
        assert not any(sign in one for one in options for sign in " ,\t\n\\#%")


def test_a_server_that_is_away_loses_nobody_data(harness, mounter):
    options = mounter.options(wanted(harness))
    assert {"soft", "softerr"}.isdisjoint(options)
    assert [any(one.startswith(said) for one in options) for said in harness["waits"]] == [True] * len(harness["waits"])


def test_it_says_at_which_port_to_knock_and_as_what_the_kernel_shows_it(mounter):
    assert mounter.port
    assert mounter.fstype.removeprefix("fuse.") == (mounter.mount_type or mounter.fstype)


def test_every_known_family_has_a_package_and_the_unknown_none(mounter):
    for id in distributions.FAMILIES:
        assert mounter.packages(contract.Distribution(id))
    assert mounter.packages(contract.Distribution("unknown")) == ()


def test_a_source_is_the_same_as_itself_in_the_mount_table(harness, mounter):
    first, *others = harness["sources"]
    assert mounter.is_same(first, persistence.read_from_table(persistence.escaped_for_table(first)))
    assert mounter.is_same(first, f"{first}/")
    assert not any(mounter.is_same(first, other) for other in others)


def test_nfs_for_a_kernel_alone_names_the_address():
    harness = HARNESSES["nfs"]
    assert harness["mounter"].plain_options(wanted(harness, source="[fd77::1]:/x"))[-1] == "addr=fd77::1"
    assert harness["mounter"].plain_options(wanted(harness, source="nas:/x")) is None


def test_a_port_of_its_own_is_told_to_the_machine():
    assert "port=3049" in nfs.Nfs(port=3049).options(wanted(HARNESSES["nfs"]))
    assert not any(one.startswith("port=") for one in nfs.Nfs().options(wanted(HARNESSES["nfs"])))


def test_further_nodes_of_a_volume_are_asked_where_the_first_is_away():
    harness = HARNESSES["glusterfs"]
    others = ("10.0.0.10:/abaca_x", "10.0.0.11:/abaca_x", "[fd77::1]:/abaca_x", "gl-2:/abaca_x", "10.0.0.11:/abaca_x")
    assert harness["mounter"].options(wanted(harness, others=others))[1] == "backup-volfile-servers=10.0.0.11:gl-2"
    alone = harness["mounter"].options(wanted(harness, others=others[:1]))
    assert not any(one.startswith("backup") for one in alone)


def test_the_volume_of_a_share_is_the_same_from_every_node_and_other_peoples_are_not():
    is_same = glusterfs.Glusterfs().is_same
    assert is_same("10.0.0.10:/abaca_x", "10.0.0.11:abaca_x")
    assert not is_same("10.0.0.10:/abaca_x", "10.0.0.10:/abaca_y")
    assert not is_same("10.0.0.10:/abaca_x", "10.0.0.10:/abaca_x/below")
    assert not is_same("10.0.0.10:/theirs", "10.0.0.11:/theirs")


def test_options_that_its_helper_would_refuse_are_left_out():
    assert glusterfs.Glusterfs(more=("nosuid", "nconnect=4", "noexec")).more == ("nosuid", "noexec")


@pytest.mark.parametrize("place", ["/mnt/a b", "/mnt/*", "/mnt/[x]"])
def test_its_helper_would_mount_elsewhere_so_such_places_are_refused(place):
    assert glusterfs.Glusterfs().place_problem(place)
    assert nfs.Nfs().place_problem(place) is None
