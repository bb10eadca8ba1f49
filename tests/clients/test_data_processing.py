# SPDX-License-Identifier: Apache-2.0
"""python-saharaclient, unmodified, with a real Keystone's catalog: shares on clusters, by its library and commands."""

import json
import subprocess
import sys

import pytest
from keystoneauth1 import session
from keystoneauth1.identity import v3
from saharaclient.api import base, client

from lab import runs
from tests.clients.command import Cloud, Refused
from tests.clients.conftest import BACKEND
from tests.clients.datacentre import Datacentre
from tests.conftest import wait_until

pytestmark = pytest.mark.system

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
WORKERS = {"servers": {"metadata": {"role": "worker"}}}
NOTHING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def site():
    """A data centre has its own database and Keystone in its run, and other modules of this package have one, too."""
    with runs.Run() as run, Datacentre(run, BACKEND) as site:
        Cloud(site.clouds, "admin").run("share", "type", "create", "default", "false")
        yield site


@pytest.fixture(scope="module")
def demo(site):
    return Cloud(site.clouds, "demo")


@pytest.fixture(scope="module")
def share(demo):
    return demo.read("share", "create", "NFS", "1", "--name", "data", "--wait")["id"]


@pytest.fixture(scope="module")
def workers(site):
    """Five servers of the project."""
    common = ["--config-file", str(site.configuration), "--project", site.keystone.project_id("demo")]
    common += ["--host-key", KEY, "--key", "file:/etc/abaca/keys/id"]
    for number in range(1, 6):
        one = [f"worker-{number}", "--address", f"10.9.0.{number}", "--property", "role=worker"]
        argv = [sys.executable, "-m", "abaca", "server", "add", *one, *common]
        subprocess.run(argv, capture_output=True, timeout=60, check=True)


@pytest.fixture
def connect(site):
    """By the kind of client: one of a user, who finds the service in the catalog."""
    opened = []

    def connect(kind, user="demo"):
        login = session.Session(auth=v3.Password(**site.keystone.credentials(user)))
        opened.append(login)
        return kind(session=login, region_name="RegionOne")

    yield connect
    for one in opened:
        one.session.close()


def until(clusters, cluster_id, status):
    def there():
        found = clusters.get(cluster_id)
        return found if found.status == status else None

    return wait_until(there, 60, every_s=0.2)


def gone(clusters, cluster_id):
    try:
        clusters.get(cluster_id)
    except base.APIException as error:
        return error.error_code == 404
    return False


@pytest.mark.parametrize("kind", [client.Client, client.ClientV2])
def test_the_library_has_shares_on_a_cluster_and_scales_it(connect, demo, workers, share, kind):
    sahara = connect(kind)
    (plugin,) = sahara.plugins.list()
    named = (plugin.name, plugin.versions[0])
    known = sahara.plugins.get_version_details(*named)
    (image,) = sahara.images.list()
    of_group = sahara.node_group_templates.create(
        "workers", *named, "2", node_processes=known.node_processes["servers"], node_configs=WORKERS
    )
    of_cluster = sahara.cluster_templates.create(
        "spark",
        *named,
        node_groups=[{"name": "workers", "count": 2, "node_group_template_id": of_group.id}],
        shares=[{"id": share, "path": "/srv/data", "access_level": "ro"}],
    )
    made = sahara.clusters.create("nightly", *named, cluster_template_id=of_cluster.id, default_image_id=image.id)
    found = until(sahara.clusters, made.id, "Active")
    assert len(found.node_groups[0]["instances"]) == 2
    assert found.shares == [{"id": share, "path": "/srv/data", "access_level": "ro"}]
    sahara.clusters.scale(made.id, {"resize_node_groups": [{"name": "workers", "count": 4}]})
    found = until(sahara.clusters, made.id, "Active")
    assert len(found.node_groups[0]["instances"]) == 4
    rules = demo.read("share", "access", "list", "data")
    assert len(rules) == 4
    (step,) = sahara.clusters.get(made.id, show_progress=True).provision_progress
    assert (step["successful"], step["completed"]) == (True, 4)
    # the level changes, then the share goes
    sahara.clusters.update(made.id, shares=[{"id": share, "path": "/srv/data"}], description="of the night")
    found = until(sahara.clusters, made.id, "Active")
    assert (found.shares[0]["access_level"], found.description) == ("rw", "of the night")
    sahara.clusters.update(made.id, shares=[])
    until(sahara.clusters, made.id, "Active")
    assert demo.read("share", "access", "list", "data") == []
    assert [one.name for one in sahara.clusters.list(limit=1)] == ["nightly"]
    sahara.clusters.delete(made.id)
    wait_until(lambda: gone(sahara.clusters, made.id), 60, every_s=0.2)
    sahara.cluster_templates.update(of_cluster.id, name="spark-2", description=None)
    assert sahara.cluster_templates.get(of_cluster.id).name == "spark-2"
    assert sahara.node_group_templates.export(of_group.id).node_group_template["name"] == "workers"
    sahara.cluster_templates.delete(of_cluster.id)
    sahara.node_group_templates.delete(of_group.id)
    assert list(sahara.cluster_templates.list()) == list(sahara.node_group_templates.list()) == []


@pytest.mark.parametrize("kind", [client.Client, client.ClientV2])
def test_the_library_is_told_what_is_wrong_with_a_share(connect, share, kind):
    sahara = connect(kind)
    for wrong, name in (
        ({"id": NOTHING}, "INVALID_REFERENCE"),
        ({"id": share, "path": "relative"}, "INVALID_DATA"),
        ({"id": share, "access_level": "rwx"}, "VALIDATION_ERROR"),
    ):
        with pytest.raises(base.APIException, match="Error ID") as refused:
            sahara.node_group_templates.create("wrong", "abaca", "1.0", "2", node_processes=["node"], shares=[wrong])
        assert (refused.value.error_code, refused.value.error_name) == (400, name)


def test_several_clusters_are_made_at_once(connect, workers):
    sahara = connect(client.Client)
    group = {"name": "workers", "count": 1, "node_configs": WORKERS}
    made = sahara.clusters.create("twins", "abaca", "1.0", node_groups=[group], count=2)
    for one in made.clusters:
        until(sahara.clusters, one, "Active")
        sahara.clusters.delete(one)
    for one in made.clusters:
        wait_until(lambda one=one: gone(sahara.clusters, one), 60, every_s=0.2)


def test_another_project_finds_nothing(connect, workers, share):
    sahara, other = connect(client.Client), connect(client.Client, "other")
    group = {"name": "workers", "count": 1, "node_configs": WORKERS}
    made = sahara.clusters.create("ours", "abaca", "1.0", node_groups=[group], shares=[{"id": share}])
    assert list(other.clusters.list()) == []
    with pytest.raises(base.APIException) as refused:
        other.clusters.get(made.id)
    assert refused.value.error_code == 404
    sahara.clusters.delete(made.id)
    wait_until(lambda: gone(sahara.clusters, made.id), 60, every_s=0.2)


def test_the_commands_make_a_cluster_from_templates(demo, workers, share, tmp_path):
    sahara = ("dataprocessing",)
    group, shares = tmp_path / "group.json", tmp_path / "shares.json"
    # without a file the command asks a compute client for the flavor that it has no more
    said = {"name": "workers", "plugin_name": "abaca", "hadoop_version": "1.0", "flavor_id": "2"}
    group.write_text(json.dumps({**said, "node_processes": ["node"], "node_configs": WORKERS}))
    shares.write_text(json.dumps([{"id": share, "path": "/srv/data"}]))
    demo.run(*sahara, "node", "group", "template", "create", "--json", str(group))
    words = ("--name", "spark", "--node-groups", "workers:2", "--shares", str(shares))
    demo.run(*sahara, "cluster", "template", "create", *words)
    words = ("--name", "nightly", "--cluster-template", "spark", "--image", "as-it-is", "--wait")
    demo.run(*sahara, "cluster", "create", *words)
    shown = demo.read(*sahara, "cluster", "show", "nightly")
    assert (shown["Status"], shown["Node groups"]) == ("Active", "workers:2")
    assert [row["Name"] for row in demo.read(*sahara, "cluster", "list")] == ["nightly"]
    shares.write_text("[]")
    demo.run(*sahara, "cluster", "update", "nightly", "--shares", str(shares), "--description", "none")
    demo.run(*sahara, "cluster", "delete", "nightly", "--wait")
    with pytest.raises(Refused, match="No matches"):
        demo.run(*sahara, "cluster", "show", "nightly")
    demo.run(*sahara, "cluster", "template", "delete", "spark")
    demo.run(*sahara, "node", "group", "template", "delete", "workers")
