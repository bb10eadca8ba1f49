# SPDX-License-Identifier: Apache-2.0
"""Which packages are installed on which distribution, and how."""

import pytest

from abaca.nodes import distributions
from abaca.nodes.nfs import Nfs

RELEASES = {
    "debian 12": ('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"', "apt-get", "nfs-common"),
    "ubuntu 24.04": ("ID=ubuntu\nID_LIKE=debian\nPRETTY_NAME='Ubuntu 24.04.1 LTS'", "apt-get", "nfs-common"),
    "mint": ('ID=linuxmint\nID_LIKE="ubuntu debian"', "apt-get", "nfs-common"),
    "fedora 41": ('ID=fedora\nPRETTY_NAME="Fedora Linux 41"', "dnf", "nfs-utils"),
    "rhel 9": ('ID="rhel"\nID_LIKE="fedora"', "dnf", "nfs-utils"),
    "centos 7": ('ID="centos"\nID_LIKE="rhel fedora"', "dnf", "nfs-utils"),
    "rocky 9": ('ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf", "nfs-utils"),
    "a new child of rhel": ('ID="brandnew"\nID_LIKE="rhel centos fedora"', "dnf", "nfs-utils"),
    "oracle 9": ('ID="ol"\nID_LIKE="fedora"', "dnf", "nfs-utils"),
    "sles 15": ('ID="sles"\nID_LIKE="suse"', "zypper", "nfs-client"),
    "opensuse leap": ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "zypper", "nfs-client"),
    "alpine": ("ID=alpine", "apk", "nfs-utils"),
}


@pytest.mark.parametrize(("text", "program", "package"), RELEASES.values(), ids=RELEASES)
def test_a_known_distribution_gets_its_client_package_by_its_own_program(text, program, package):
    distribution = distributions.read(text.splitlines())
    packages = Nfs().packages(distribution)
    assert packages == (package,)
    installer = distributions.installer(distribution, packages)
    assert installer.by_hand.split()[0] == program
    for command in installer.commands:
        assert command[-1] in {package, "update"}


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("debian", "DPkg::Lock::Timeout=120"),
        ("debian", "DEBIAN_FRONTEND=noninteractive"),
        ("sles", "ZYPP_LOCK_TIMEOUT=120"),
        ("sles", "--non-interactive"),
        ("alpine", "--wait 120"),
    ],
)
def test_nobody_is_asked_and_another_package_manager_is_waited_for(id, words):
    distribution = distributions.read([f"ID={id}"])
    installer = distributions.installer(distribution, Nfs().packages(distribution))
    assert words in " ".join(installer.commands[0])


def test_old_relatives_of_rhel_are_served_by_yum():
    centos = distributions.read(["ID=centos"])
    installer = distributions.installer(centos, ["nfs-utils"])
    assert [one[2] for one in (*installer.commands, *installer.instead)] == ["dnf", "yum"]


def test_an_empty_package_list_is_refreshed_before_the_second_try():
    debian = distributions.read(["ID=debian"])
    first, update, second = distributions.installer(debian, ["nfs-common"]).commands
    assert (update[-1], first) == ("update", second)


@pytest.mark.parametrize("text", ["", "ID=gentoo", 'ID="unclosed', "nonsense\n=\n", "ID=$(reboot)"])
def test_an_unknown_system_gets_no_command(text):
    distribution = distributions.read(text.splitlines())
    assert Nfs().packages(distribution) == ()
    assert distributions.installer(distribution, ("nfs-common",)) is None


def test_a_package_name_is_never_more_than_a_name():
    debian = distributions.read(["ID=debian"])
    assert distributions.installer(debian, ["nfs-common", "-o=Dir::Etc=/tmp"]) is None
