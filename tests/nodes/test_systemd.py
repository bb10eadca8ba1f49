# SPDX-License-Identifier: Apache-2.0
"""A machine on which systemd comes later; what it does from the start is in test_booted.py."""

import pytest

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("clean")]


@pytest.fixture
def systemd(machine):
    """The machine seems to have been booted by systemd; its systemctl works on the files alone."""
    machine.script(
        "mkdir -p /run/systemd/system; cp /usr/bin/systemctl /run/systemctl;"
        ' printf \'#!/bin/sh\\necho "$@" >> /run/calls\\nSYSTEMD_OFFLINE=1 exec /run/systemctl "$@"\\n\' > /run/stub;'
        " chmod 755 /run/stub; mount --bind /run/stub /usr/bin/systemctl"
    )
    yield machine
    machine.script("umount /usr/bin/systemctl; rm -rf --one-file-system /run/systemd /run/calls")


def test_what_was_kept_by_the_fstab_stays_there_when_systemd_comes(nodes, machine, login, mount, request):
    nodes.mount(login, mount)
    systemd = request.getfixturevalue("systemd")
    assert nodes.mount(login, mount).is_persistent
    assert systemd.run(["ls", "/run/calls"]).code != 0
    nodes.unmount(login, mount)
    assert systemd.check(["cat", "/etc/fstab"]) == ""
