# SPDX-License-Identifier: Apache-2.0
"""docs/operating/networks.md, word for word: its settings are read, its commands given, its kinds are those found."""

import contextlib
import re
import shlex
import textwrap
import typing

import pytest
import yaml

from abaca import app, settings
from abaca.app.networks import network_plugin, see_to_addresses
from abaca.cli.main import main
from abaca.db.networks import share_network_subnets, share_networks
from abaca.networks.contract import NetworkUnknown
from abaca.networks.neutron import Neutron
from abaca.reconcile.network_allocations import Kind
from tests.conftest import ROOT
from tests.databases import place
from tests.networks.harness import OTHER, PROJECT, ZONE, NeutronHarness, StandaloneHarness

PAGE = (ROOT / "docs" / "operating" / "networks.md").read_text()
# The back end of which the page speaks.
SERVED = "[DEFAULT]\nstate_path = {directory}\nenabled_share_backends = here\n"
BACK_END = "[here]\ndriver = dummy\ndriver_handles_share_servers = true\n"


def blocks(heading):
    """What is indented below a heading, block by block."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", part, re.MULTILINE)
    return [textwrap.dedent(one).strip() for one in found]


def read(directory, text):
    file = directory / "abaca.conf"
    file.write_text(SERVED.format(directory=directory) + text + "\n" + BACK_END)
    found = settings.read([file], environ={}).settings
    app.check(found)
    return file, found


def ids(command):
    """The two ids that a command gives to a new share network, or None."""
    words = shlex.split(command)
    named = [words[words.index(one) + 1] for one in ("--neutron-net-id", "--neutron-subnet-id") if one in words]
    return tuple(named) or None


def test_declared_subnets_are_had_as_the_page_says(tmp_path, request):
    database = place("sqlite", tmp_path, request)
    harness = StandaloneHarness(database)
    declared, commands = blocks("Declared subnets")
    _, found = read(tmp_path, declared)
    plugin = network_plugin(found, harness.db)
    red, plain = (ids(command) for command in commands.splitlines())
    looked = plugin.look(harness.subnet(red), ZONE)
    assert (looked.cidr, looked.gateway, looked.mtu, looked.segmentation_id) == (
        "10.30.0.0/24",
        "10.30.0.1",
        1500,
        130,
    )
    assert plugin.look(harness.subnet(("red", "red6")), ZONE).cidr == "fd30::/64"
    with pytest.raises(NetworkUnknown):
        plugin.look(harness.subnet(red, project_id=OTHER), ZONE)
    subnet = harness.subnet(plain, project_id=OTHER)
    (one,) = plugin.allocate(harness.server(subnet), subnet, plugin.look(subnet, ZONE), 1)
    assert re.match(r"10\.20\.[1-9]\.", one.ip_address)
    assert see_to_addresses(found, harness.db) == []
    database.close()


def test_operators_change_subnets_as_the_page_says(tmp_path, request, capsys):
    database = place("sqlite", tmp_path, request)
    harness = StandaloneHarness(database)
    file, _ = read(tmp_path, blocks("Declared subnets")[0])
    with harness.db.write() as tx:
        words = {"project_id": PROJECT, "user_id": None, "name": "plain", "description": None}
        share_network_subnets.add(tx, share_networks.add(tx, words), {})
    for command in blocks("Subnets that come and go")[0].splitlines():
        program, *words = shlex.split(command)
        with pytest.raises(SystemExit) as end:
            main([*words, "--config-file", str(file)])
        assert (program, end.value.code) == ("abaca", 0)
        said = capsys.readouterr().out
    assert said == "It is possible; nothing has changed.\n"
    database.close()


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning")
@pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning")
@pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning")
def test_a_neutron_is_asked_as_the_page_says(tmp_path, request, real_cloud, capsys):
    """Its clouds.yaml stands elsewhere here, with the address and the password of the Keystone that there is."""
    login, _ = real_cloud
    said, clouds = blocks("A Neutron")
    cloud = yaml.safe_load(clouds)["clouds"]["neutron"]
    assert cloud["auth"].keys() == login.credentials("admin").keys()
    cloud["auth"] |= login.credentials("admin")
    (tmp_path / "page.yaml").write_text(yaml.safe_dump({"clouds": {"neutron": cloud}}))
    with contextlib.ExitStack() as stack:
        database = place("sqlite", tmp_path, request)
        stack.callback(database.close)
        harness = NeutronHarness(database, tmp_path, *real_cloud)
        stack.callback(harness.close)
        file, found = read(tmp_path, said.replace("/etc/abaca/clouds.yaml", str(tmp_path / "page.yaml")))
        plugin = network_plugin(found, harness.db)
        assert isinstance(plugin, Neutron)
        stack.callback(plugin.close)
        subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
        server_id = harness.server(subnet)
        plugin.allocate(server_id, subnet, plugin.look(subnet, ZONE), 1)
        (port,) = harness.ports(server_id)
        assert (port.device_owner, port.project_id) == ("manila:share", PROJECT)
        assert found.networks.neutron_deployment in port.description
        (task,) = see_to_addresses(found, harness.db)
        assert (task.every_s, task.do()) == (3600, 0)
        for command in blocks("Addresses that are left behind")[0].splitlines():
            program, *words = shlex.split(command)
            with pytest.raises(SystemExit) as end:
                main([*words, "--config-file", str(file)])
            assert (program, end.value.code) == ("abaca", 0)
            assert capsys.readouterr().out == "All addresses are those of share servers.\n"


def test_the_page_tells_of_each_kind_that_is_found():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(typing.get_args(Kind))
