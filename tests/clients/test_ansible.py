# SPDX-License-Identifier: Apache-2.0
"""The playbook of the users' pages, run by a real Ansible with the collection openstack.cloud that comes with it."""

import re
import subprocess

import pytest

from lab import processes
from tests.clients.command import on_path, read_clouds, write_clouds
from tests.conftest import ROOT

pytestmark = pytest.mark.system

PLAYBOOK = ROOT / "docs" / "using" / "ansible.yaml"
ANSIBLE = ROOT / ".venv-ansible" / "bin"


@pytest.fixture
def play(standalone, tmp_path, admin, member):
    """Runs the playbook, and says how many of its tasks were done, and how many changed something."""
    if not (ANSIBLE.parent / ".installed").exists():
        processes.command(["make", "-C", str(ROOT), "ansible"], timeout_s=900.0)
    known = read_clouds(standalone.clouds)
    write_clouds(tmp_path / "clouds.yaml", {"abaca-admin": known["admin"], "abaca": known["member"]})
    (tmp_path / "bin").mkdir()
    given = {
        "PATH": on_path(tmp_path / "bin"),
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml"),
        "ANSIBLE_PYTHON_INTERPRETER": str(ANSIBLE / "python"),
    }

    def run():
        argv = [ANSIBLE / "ansible-playbook", "--inventory", "localhost,", "--connection", "local", PLAYBOOK]
        done = subprocess.run(argv, env=given, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return tuple(int(number) for number in re.search(r"ok=(\d+) +changed=(\d+)", done.stdout).groups())

    yield run
    member.run("share", "delete", "team", "--wait")
    admin.run("share", "type", "delete", "silver")


def test_a_playbook_makes_what_it_says_and_changes_nothing_again(play, admin, member):
    assert play() == (4, 2)
    shown = admin.read("share", "type", "show", "silver")
    assert (shown["description"], shown["visibility"]) == ("Snapshots, and shares from them", "public")
    assert shown["optional_extra_specs"] == {"snapshot_support": "True", "create_share_from_snapshot_support": "True"}
    made = member.read("share", "show", "team")
    assert (made["status"], made["size"], made["share_type_name"]) == ("available", 2, "silver")
    assert play() == (3, 0)
    admin.run("share", "type", "set", "silver", "--extra-specs", "snapshot_support=False")
    assert play() == (3, 1)
    assert admin.read("share", "type", "show", "silver")["optional_extra_specs"]["snapshot_support"] == "True"
