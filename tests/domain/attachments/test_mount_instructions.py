# SPDX-License-Identifier: Apache-2.0
"""What people copy to mount a share by themselves: right for odd values too, and as Abaca itself mounts."""

import shlex
import shutil
import subprocess

import pytest
import yaml

from abaca import errors
from abaca.domain.attachments import attachments, mount_instructions
from abaca.nodes.contract import Mount
from abaca.nodes.glusterfs import Glusterfs
from abaca.nodes.nfs import Nfs

WAY = mount_instructions.Way("7f3c", "[fd77::1]:/shares/a b%c", "/srv/my-data.d", "rw", 3)


def test_the_commands_are_shell_words():
    assert shlex.split(mount_instructions.commands(WAY, "debian")[-1])[-2:] == [
        "[fd77::1]:/shares/a b%c",
        "/srv/my-data.d",
    ]
    assert mount_instructions.commands(WAY, "rocky")[0] == "dnf install -y nfs-utils"


def test_an_fstab_line_has_six_fields():
    fields = mount_instructions.fstab(WAY).split()
    assert len(fields) == 6
    assert fields[0] == "[fd77::1]:/shares/a\\040b%c"


def test_a_unit_is_named_as_systemd_wants_it():
    assert mount_instructions.unit_name("/srv/my-data.d") == "srv-my\\x2ddata.d.mount"
    assert mount_instructions.unit_name("/.hidden/x@y") == "\\x2ehidden-x\\x40y.mount"
    assert "What=[fd77::1]:/shares/a b%%c\nWhere=/srv/my-data.d\n" in mount_instructions.unit(WAY)


def test_a_unit_whose_name_no_file_can_have_is_left_out(tmp_path):
    found = mount_instructions.systemd(WAY._replace(mount_point="/mnt/" + "a-b" * 40))
    (tmp_path / found["name"]).write_text(found["text"])
    longer = WAY._replace(mount_point="/mnt/" + "a-b" * 42)
    with pytest.raises(OSError, match="name too long"):
        (tmp_path / mount_instructions.unit_name(longer.mount_point)).touch()
    assert mount_instructions.systemd(longer) is None


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="needs systemd-escape")
@pytest.mark.parametrize("path", ["/srv/my-data.d", "/.hidden/x@y", "/a+b/c_d", "/mnt/7f3c-0"])
def test_systemd_says_the_same(path):
    said = subprocess.run(
        ["systemd-escape", "--path", "--suffix=mount", path], capture_output=True, text=True, check=True
    )
    assert mount_instructions.unit_name(path) == said.stdout.strip()


def test_a_volume_names_the_server_without_brackets():
    text = mount_instructions.persistent_volume(WAY)
    assert '    server: "fd77::1"\n    path: "/shares/a b%c"\n    readOnly: false\n' in text
    assert "storage: 3Gi" in text


def test_a_part_of_cloud_init_holds_the_lines_of_an_fstab():
    text = mount_instructions.cloud_init([WAY, WAY._replace(source="10.0.0.1:/x", mount_point="/srv/x")], "rocky")
    part = yaml.safe_load(text)
    assert [" ".join(mount) for mount in part["mounts"]] == [
        mount_instructions.fstab(WAY),
        mount_instructions.fstab(WAY._replace(source="10.0.0.1:/x", mount_point="/srv/x")),
    ]
    assert all(len(mount) == 6 for mount in part["mounts"])
    assert (part["packages"], part["runcmd"]) == (["nfs-utils"], [["mount", "-a", "-t", "nfs4"]])


def test_tasks_of_ansible_say_what_is_mounted_as_it_is():
    text = mount_instructions.ansible([WAY._replace(source="10.0.0.1:/\U0001f4be")], "debian")
    install, mount = yaml.safe_load(text)
    assert install["ansible.builtin.package"] == {"name": "nfs-common", "state": "present"}
    assert mount["ansible.posix.mount"]["src"] == "10.0.0.1:/\U0001f4be"
    assert (mount["name"], mount["ansible.posix.mount"]["state"]) == ("Mount share 7f3c at /srv/my-data.d", "mounted")
    # of which Ansible would make what the expression says
    text = mount_instructions.ansible([WAY._replace(source="10.0.0.1:/{{ x }}")], "debian")
    assert '    src: !unsafe "10.0.0.1:/{{ x }}"\n' in text


def test_volumes_of_several_shares_are_one_stream():
    text = mount_instructions.persistent_volumes([WAY, WAY._replace(share_id="8a")])
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(text)] == ["share-7f3c", "share-8a"]


def test_people_mount_as_abaca_does():
    for level, port, more in (("rw", 2049, ()), ("ro", 2049, ("nosuid", "nodev")), ("rw", 20490, ("noexec",))):
        way = WAY._replace(level=level, port=port, more=more)
        mount = Mount(name="x", source=way.source, mount_point=way.mount_point, is_read_only=level == "ro")
        assert way.options == Nfs(port=port, more=more).options(mount)
    assert Nfs().fstype == mount_instructions.FSTYPE
    assert (*Nfs().protocols, *Glusterfs().protocols) == attachments.PROTOCOLS


def test_a_system_that_nobody_knows_is_refused():
    with pytest.raises(errors.Invalid, match="debian"):
        mount_instructions.check_system("plan9")
