# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""A share on a real GlusterFS is attached to a server with systemd and a kernel of its own, which boots again."""

from lab import booted
from tests.conftest import wait_until
from tests.system.attaching import attach, detach, registered
from tests.system.stranger import SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    cloud,
    cluster,
    delete,
    made,
    run,
    said,
    thorough,
)

pytestmark = thorough

PACKAGES = ("glusterfs-client", "glusterfs-common", "openssl")
# What an attachment could leave.
TRACES = """grep fuse.glusterfs /proc/mounts
systemctl list-units --all --plain --no-legend 'mnt-*'
systemctl list-unit-files --no-legend 'mnt-*'
ls /mnt
cat /etc/fstab
ls /etc/ssl /usr/lib/ssl | grep -e abaca -e glusterfs
pgrep -x glusterfs"""


def test_a_share_is_back_once_its_server_has_booted_and_leaves_no_trace_when_it_is_detached(cluster, abaca, cloud):
    share = made(cloud, "outlives a boot")
    with booted.BootedGuest(cluster.network, "booted", 384) as machine:
        booted.install(machine.disk, PACKAGES)
        attached = attach(abaca, share, registered(abaca, machine))
        place = attached["mount_point"]
        said(machine, f"echo text > {place}/file && sync {place}/file")

        abaca.stop()  # or its worker might bring the share back
        machine.switch_off()
        machine.start()
        assert machine.run(["systemctl", "is-system-running", "--wait"], SHOWN_S).stdout == "running\n"
        assert "fuse.glusterfs" in said(machine, f"grep ' {place} ' /proc/mounts")
        assert said(machine, f"cat {place}/file") == "text\n"

        abaca.start()
        detach(abaca, attached["id"])
        wait_until(lambda: machine.script(TRACES).stdout == "", SHOWN_S, 0.5)
    delete(cloud, share)
    assert cluster.left() == []
