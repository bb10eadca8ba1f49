# SPDX-License-Identifier: Apache-2.0
"""Certificates of GlusterFS nodes that end, and are renewed."""

import datetime

import pytest
from cryptography import x509

from abaca.drivers import contract
from tests.drivers.harness import GlusterfsHarness


@pytest.fixture
def rig():
    made = GlusterfsHarness()
    made.start(certificate_days="10")
    yield made
    made.close()


def ends(rig):
    """When the nodes' certificates end, by their files."""
    places = [rig.bed.nodes.ssl(host) for host in rig.bed.nodes.hosts]
    found = [x509.load_pem_x509_certificate((place / "glusterfs.pem").read_bytes()) for place in places]
    return [one.not_valid_after_utc for one in found]


def told(driver):
    """When the first certificate ends, as the pool tells."""
    (pool,) = driver.pools()
    return datetime.datetime.fromisoformat(pool.capabilities[contract.CERTIFICATES_END_AT])


def test_a_pool_tells_when_the_first_certificate_ends_that_it_rests_on(rig):
    before = told(rig.driver)
    assert before == rig.driver.authority.ends_at
    rig.share()
    assert abs(told(rig.driver) - min(ends(rig))) < datetime.timedelta(minutes=1)
    assert told(rig.start()) < before


def test_the_operator_is_told_of_an_end_that_is_near_with_the_mend(rig, caplog):
    rig.share()
    rig.start().pools()
    assert "certificate ends in 10 days: `abaca certificate renew --restart`" in caplog.text


def test_a_node_that_is_away_keeps_no_pool_from_being_told(rig):
    rig.share()
    rig.bed.nodes.kill("127.0.7.3")
    assert told(rig.start()) < datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=11)
    rig.bed.nodes.revive("127.0.7.3")


def test_renewing_brings_a_new_certificate_to_each_node_and_starts_volumes_of_shares_anew(rig):
    share = rig.share("text")
    rig.bed.gluster.create("theirs", {"client.ssl": "on", "server.ssl": "on"})
    before = ends(rig)
    driver = rig.start()
    rig.bed.gluster.commands.clear()
    said = list(driver.renew(restarts=False))
    assert [line for line in said if "a new certificate, it had one for 10 days" in line] == said
    assert len(said) == 3
    assert min(ends(rig)) - max(before) > datetime.timedelta(days=1800)
    assert told(driver) > max(before)
    assert not any("stop" in words for words in rig.bed.gluster.commands)

    assert f"volume abaca_{share.id}: started anew" in list(driver.renew(restarts=True))
    stopped = [words[3] for words in rig.bed.gluster.commands if words[1:3] == ["volume", "stop"]]
    assert stopped == [f"abaca_{share.id}"]
    assert (rig.volume(share).is_started, rig.volume(share).is_open, rig.read(share)) == (True, False, "text")
    assert rig.bed.gluster.volumes["theirs"].is_started
