# SPDX-License-Identifier: Apache-2.0
"""What a GlusterFS back end misses before it can serve: it logs in to Heketi and to the nodes, and changes nothing."""

import shutil
import subprocess

import pytest

from tests.drivers.harness import GlusterfsHarness


@pytest.fixture(scope="module")
def rig():
    """Heketi and three nodes that nothing has been done to."""
    made = GlusterfsHarness()
    made.driver = made.build()
    yield made
    made.close()


@pytest.fixture
def ssl(rig):
    """The directories of the nodes' certificates, which are as they were afterwards."""
    places = [rig.bed.nodes.ssl(host) for host in rig.bed.nodes.hosts]
    before = [sorted(place.iterdir()) for place in places]
    yield places
    assert [sorted(place.iterdir()) for place in places] == before


def found(rig, **options):
    """What is missing, as one text."""
    return "\n".join(rig.build(**options).examine())


def test_a_back_end_that_was_never_started_misses_nothing_and_stays_as_it_is(rig, ssl):
    assert found(rig) == ""
    assert not (rig.directory / "authority").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"heketi_key_file": ""}, "heketi_key_file is not set"),
        ({"heketi_key_file": "/nowhere/key"}, "/nowhere/key"),
        ({"heketi_url": "http://127.0.0.1:9"}, "127.0.0.1"),
        ({"clusters": "gold:0123"}, "Heketi has no cluster 0123 for the pool gold; it has "),
        ({"durability": "disperse 4+2"}, "disperse 4+2 needs 6"),
        ({"ssh_known_hosts": "/nowhere/hosts"}, "/nowhere/hosts cannot be read"),
        ({"tls_directory": "/nowhere/ssl"}, "there is no directory /nowhere/ssl"),
        ({"authority_certificate": "/nowhere/ca.pem", "authority_key": "/nowhere/ca.key"}, "/nowhere/ca.pem"),
    ],
)
def test_what_is_missing_is_said(rig, ssl, options, says):
    assert says in found(rig, **options)


def test_a_node_that_is_away_is_named_and_the_others_are_looked_at_all_the_same(rig, ssl):
    rig.bed.nodes.kill("127.0.7.2")
    try:
        assert "127.0.7.2" in found(rig)
        assert len(rig.build(tls_directory="/nowhere/ssl").examine()) == 3
    finally:
        rig.bed.nodes.revive("127.0.7.2")


def test_a_node_whose_glusterd_hangs_is_named(rig, ssl):
    rig.bed.nodes.hanging.add("127.0.7.2")
    try:
        (said,) = rig.build().examine()
        assert said.startswith("the node 127.0.7.2: its glusterd does not answer, start it anew there")
    finally:
        rig.bed.nodes.hanging.clear()


def test_a_node_without_programs_is_named_and_the_client_of_glusterfs_is_one_where_shares_start_from_snapshots(
    rig, ssl, tmp_path
):
    programs = rig.bed.nodes.programs
    for name in ("sh", "openssl"):
        (tmp_path / name).symlink_to(shutil.which(name))
    (programs.bin / "mount.glusterfs").unlink()
    before, programs.path = programs.path, str(tmp_path)
    try:
        for most, count in (("0", 0), ("1", 3)):
            said = found(rig, snapshots_per_share=most)
            assert (said.count("flock is not installed"), "openssl is not" in said) == (3, False)
            assert said.count("it has no mount.glusterfs, with which shares start from snapshots") == count
    finally:
        programs.path = before
        shutil.copy(programs.bin / "mount", programs.bin / "mount.glusterfs")


def test_a_certificate_of_somebody_else_is_said(rig):
    place = rig.bed.nodes.ssl("127.0.7.1")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=theirs", "-days", "2"]
    files = ["-keyout", place / "glusterfs.key", "-out", place / "glusterfs.pem"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    rig.build().authority.make()
    try:
        assert "it has a certificate of CN=theirs" in found(rig)
    finally:
        for file in files[1::2]:
            file.unlink()
        for file in (rig.directory / "authority").iterdir():
            file.unlink()
        (rig.directory / "authority").rmdir()
