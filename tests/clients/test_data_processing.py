# SPDX-License-Identifier: Apache-2.0
"""python-saharaclient, unmodified, with a real Keystone's catalog: shares on clusters, by its library and commands."""

import json
import subprocess
import sys
import uuid

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


@pytest.fixture(params=["1.1", "2"])
def sahara(request, demo):
    """`sahara(...)`: what a command of data processing prints, by one of both versions; `read` shows it as data."""

    class Sahara:
        version = request.param
        words = ("--os-data-processing-api-version", request.param, "dataprocessing")

        def __call__(self, *words):
            return demo.run(*self.words, *words)

        def read(self, *words):
            return demo.read(*self.words, *words)

    return Sahara()


def test_the_commands_make_a_cluster_from_templates(sahara, workers, share, tmp_path):
    group, shares = tmp_path / "group.json", tmp_path / "shares.json"
    # without a file the command asks a compute client for the flavor that it has no more
    release = "hadoop_version" if sahara.version == "1.1" else "plugin_version"
    said = {"name": "workers", "plugin_name": "abaca", release: "1.0", "flavor_id": "2"}
    group.write_text(json.dumps({**said, "node_processes": ["node"], "node_configs": WORKERS}))
    shares.write_text(json.dumps([{"id": share, "path": "/srv/data"}]))
    sahara("node", "group", "template", "create", "--json", str(group))
    words = ("--name", "spark", "--node-groups", "workers:2", "--shares", str(shares))
    sahara("cluster", "template", "create", *words)
    words = ("--name", "nightly", "--cluster-template", "spark", "--image", "as-it-is", "--wait")
    sahara("cluster", "create", *words)
    shown = sahara.read("cluster", "show", "nightly")
    assert (shown["Status"], shown["Node groups"]) == ("Active", "workers:2")
    assert [row["Name"] for row in sahara.read("cluster", "list")] == ["nightly"]
    # with --wait the command stumbles over the answer that it has waited for
    sahara("cluster", "scale", "nightly", "--instances", "workers:3")
    wait_until(lambda: sahara.read("cluster", "show", "nightly")["Status"] == "Active", 60, every_s=0.2)
    assert sahara.read("cluster", "show", "nightly")["Node groups"] == "workers:3"
    sahara("cluster", "verification", "nightly", "--start")
    wait_until(lambda: verified(sahara, "nightly") == "GREEN", 60, every_s=0.2)
    shares.write_text("[]")
    sahara("cluster", "update", "nightly", "--shares", str(shares), "--description", "none")
    sahara("cluster", "template", "show", "spark")
    sahara("node", "group", "template", "show", "workers")
    assert [row["Name"] for row in sahara.read("node", "group", "template", "list")] == ["workers"]
    sahara("cluster", "delete", "nightly", "--wait")
    with pytest.raises(Refused, match="No matches"):
        sahara("cluster", "show", "nightly")
    sahara("cluster", "template", "delete", "spark")
    sahara("node", "group", "template", "delete", "workers")


def verified(sahara, name):
    return sahara.read("cluster", "show", name, "--verification")["Verification status"]


@pytest.mark.parametrize("kind", [client.Client, client.ClientV2])
def test_the_library_registers_images_and_tags_them(connect, kind):
    images = connect(kind).images
    id = str(uuid.uuid4())
    assert images.update_image(id, "ubuntu", "of the night").image["username"] == "ubuntu"
    images.update_tags(id, ["abaca", "1.0"])
    images.update_tags(id, ["abaca", "2.0"])
    assert sorted(images.get(id).tags) == ["2.0", "abaca"]
    assert id in [one.id for one in images.list({"tags": ["2.0", "abaca"]})]
    assert images.list({"tags": ["1.0", "2.0"]}) == []
    if kind is client.ClientV2:
        assert sorted(images.get_tags(id).tags) == ["2.0", "abaca"]
        images.delete_tags(id)
    else:
        images.update_tags(id, [])
    assert images.get(id).tags == []
    images.unregister_image(id)
    with pytest.raises(base.APIException) as refused:
        images.get(id)
    assert refused.value.error_code == 404


def test_the_commands_tag_an_image_and_forget_it(sahara, connect):
    image = str(uuid.uuid4())
    # the command that registers asks an image service for the image first
    connect(client.Client).images.update_image(image, "ubuntu")
    assert sahara.read("image", "show", image)["Username"] == "ubuntu"
    assert sahara.read("image", "tags", "set", image, "--tags", "abaca")["Tags"] == "abaca"
    assert sahara.read("image", "tags", "add", image, "--tags", "1.0")["Tags"] == "1.0, abaca"
    assert sahara.read("image", "tags", "remove", image, "--tags", "1.0")["Tags"] == "abaca"
    assert sahara.read("image", "tags", "remove", image, "--all")["Tags"] == ""
    assert "successfully" in sahara("image", "unregister", image)
    with pytest.raises(Refused, match=image):
        sahara("image", "show", image)


def test_the_commands_show_the_plugin_and_some_lists_end_in_the_clients_own_error(sahara):
    assert sahara.read("plugin", "show", "abaca")["Name"] == "abaca"
    assert sahara.read("plugin", "show", "abaca", "--plugin-version", "1.0")["Required image tags"] == "1.0, abaca"
    # osc-lib takes other formatters by now; where these work again the page on clusters says too little
    for kind in ("plugin", "image"):
        with pytest.raises(Refused, match="Invalid formatter"):
            sahara(kind, "list")
