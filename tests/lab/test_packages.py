# SPDX-License-Identifier: Apache-2.0
"""What running and testing for real needs is installed once, though several clones ask for it at the same moment."""

import os
import subprocess

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.system

# A machine of which nothing is installed, with directories of its own where packages and their policy are kept.
MACHINE = """
mount --make-rprivate /
mount -t tmpfs tmpfs /usr/sbin
mount -t tmpfs tmpfs /var/cache
echo 'exit 0 # of the machine' > /usr/sbin/policy-rc.d
mkdir -p /var/cache/abaca-lab/cloud-kernel && touch /var/cache/abaca-lab/cloud-kernel/complete
"""
QUERY = """#!/bin/sh
[ ! -e "$HERE/installed" ] || printf installed
"""
# Waits a second for another one to come in, which would be one too many.
INSTALLER = """#!/bin/bash
case "$*" in *install*) ;; *) exit 0 ;; esac
grep -q 101 /usr/sbin/policy-rc.d || echo "services would start" >> "$HERE/wrong"
mkdir "$HERE/inside" 2> /dev/null || { echo "two at once" >> "$HERE/wrong"; touch "$HERE/met"; }
exec 9<> "$HERE/nothing"
for _ in $(seq 20); do [ -e "$HERE/met" ] || read -r -t 0.05 -u 9 || true; done
rmdir "$HERE/inside" 2> /dev/null
touch "$HERE/installed"
"""


def test_two_clones_that_install_at_once_take_turns_and_leave_the_machines_policy(tmp_path):
    for name, text in (("dpkg-query", QUERY), ("apt-get", INSTALLER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    os.mkfifo(tmp_path / "nothing")
    both = f"{MACHINE}\n{ROOT}/lab/packages.sh & {ROOT}/lab/packages.sh; last=$?; wait $!; echo $? $last"
    environment = {**os.environ, "HERE": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = ["unshare", "--mount", "bash", "-ec", f"{both}; cat /usr/sbin/policy-rc.d"]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["0 0", "exit 0 # of the machine"], done.stdout
    assert not (tmp_path / "wrong").exists(), (tmp_path / "wrong").read_text()
    assert done.stdout.count("Installing the Debian packages") == 1
