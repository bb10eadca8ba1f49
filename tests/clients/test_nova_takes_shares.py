# SPDX-License-Identifier: Apache-2.0
"""A real Nova uses Abaca as its share service: its own client, its API and what it does on a compute host."""

import openstack
import pytest

from lab import keystone, nova, processes, service
from tests.clients import command
from tests.clients.command import Cloud, Refused
from tests.clients.conftest import BACKEND
from tests.conftest import wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

NEWEST = ("--os-compute-api-version", "2.97")
IP = ("ip", nova.STORAGE_IP)
LOCKED = 3  # the rule's two locks, and the share's


class Site:
    """A Keystone in whose catalog are Abaca and a Nova."""

    def __init__(self, login, compute, abaca, clouds):
        self.login, self.nova, self.abaca = login, compute, abaca
        self.demo = Cloud(clouds, "demo")
        config = openstack.config.OpenStackConfig(config_files=[str(clouds)], load_envvars=False)
        made = (openstack.connection.Connection(config=config.get_one(cloud=name)) for name in ("admin", "demo"))
        self.connections = tuple(made)
        self.shares_of_all, self.shares = (one.shared_file_system for one in self.connections)

    def user(self, name):
        return self.login.token(name), self.login.project_id(name)

    def locks(self):
        return list(self.shares_of_all.resource_locks(all_projects=True))


@pytest.fixture(scope="module")
def site(run):
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "keystone",
            "default_share_type": "default",
            "enabled_share_backends": "alpha",
        },
        "alpha": BACKEND,
    }
    directory = run.path("nova-takes-shares")
    abaca = service.Service(run, sections, directory=directory)
    with nova.Nova(run) as compute, keystone.Keystone(run, abaca.url, compute.url) as login:
        sections["keystone_authtoken"] = login.validation_options()
        abaca.configure("keystone_authtoken", **login.validation_options())
        with abaca:
            compute.start(login)
            common = {"region_name": "RegionOne", "identity_api_version": "3"}
            common |= {"shared_file_system_api_version": command.MICROVERSION}
            clouds = {name: {"auth": login.credentials(name), **common} for name in ("admin", "demo")}
            command.write_clouds(directory / "clouds.yaml", clouds)
            made = Site(login, compute, abaca, directory / "clouds.yaml")
            kind = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}
            assert made.shares_of_all.post("/types", json={"share_type": kind}).status_code == 200
            yield made
            for connection in made.connections:
                connection.close()


@pytest.fixture
def share(site):
    """The id of a share of the project `demo`."""
    made = site.shares.create_share(share_protocol="NFS", size=1, name="data")
    site.shares.wait_for_status(made, status="available", interval=1, wait=30)
    yield made.id
    site.shares.delete_share(made.id)


def test_every_call_of_novas_client_is_answered(site, share):
    ask = site.nova.ask_shares
    found = ask("get", share, user=site.user("demo"))
    assert (found["id"], found["status"], found["share_proto"]) == (share, "available", "NFS")
    assert found["export_location"].startswith("10.0.0.10:/")
    assert ask("get_access", share, *IP) is None
    assert ask("has_access", share, *IP) is False

    allowed = ask("allow", share, *IP, "rw")
    assert (allowed["access_to"], allowed["access_level"]) == (nova.STORAGE_IP, "rw")
    wait_until(lambda: ask("has_access", share, *IP))
    assert ask("get_access", share, *IP)["id"] == allowed["id"]
    assert [(rule["access_to"], rule["state"]) for rule in ask("get_access_rules", share)] == [(IP[1], "active")]
    reasons = {(lock.resource_type, lock.resource_action): lock.lock_reason for lock in site.locks()}
    assert reasons[("access_rule", "show")] == reasons[("access_rule", "delete")] == "Lock by nova"
    assert reasons[("share", "delete")].startswith("Locked by access lock: ")
    assert len(site.locks()) == LOCKED

    with pytest.raises(processes.LabError, match="ShareAccessGrantError"):
        ask("allow", share, *IP, "rw")
    ask("deny", share, *IP)
    wait_until(lambda: ask("get_access_rules", share) == [])
    assert site.locks() == []
    with pytest.raises(processes.LabError, match="ShareAccessNotFound"):
        ask("deny", share, *IP)


def test_what_is_not_there_or_not_theirs_is_told_as_nova_understands_it(site, share):
    for user, share_id in (("other", share), ("demo", "nosuch")):
        with pytest.raises(processes.LabError, match="ShareNotFound"):
            site.nova.ask_shares("get", share_id, user=site.user(user))
    with pytest.raises(processes.LabError, match="ShareNotFound"):
        site.nova.ask_shares("get_access_rules", "nosuch")


def test_a_user_attaches_a_share_by_nova_and_cannot_take_it_from_under_the_server(site, share):
    more = {"vm_state": "stopped", "power_state": 4, "host": nova.COMPUTE_HOST}
    server = site.nova.plant("web", site.login.project_id("demo"), user_id=site.login.user_id("demo"), **more)

    def attached():
        return [row["Status"] for row in site.demo.read(*NEWEST, "server", "share", "list", server)]

    site.demo.run(*NEWEST, "server", "add", "share", server, share)
    wait_until(lambda: attached() == ["inactive"])
    (rule,) = site.demo.read("share", "access", "list", share)
    assert (rule["Access To"], rule["State"]) == ("******", "active")
    assert len(site.locks()) == LOCKED
    with pytest.raises(Refused, match="locked against deletion"):
        site.demo.run("share", "delete", share)
    for words in ((), ("--unrestrict",)):
        with pytest.raises(Refused, match="locked against deletion"):
            site.demo.run("share", "access", "delete", share, rule["ID"], *words)
    assert attached() == ["inactive"]

    site.demo.run(*NEWEST, "server", "remove", "share", server, share)
    wait_until(lambda: attached() == [])
    wait_until(lambda: site.locks() == [])
    assert site.demo.read("share", "access", "list", share) == []
    site.nova.remove(server)
