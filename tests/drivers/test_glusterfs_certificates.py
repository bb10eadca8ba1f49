# SPDX-License-Identifier: Apache-2.0
"""Certificates of GlusterFS nodes that end, and are renewed."""

import datetime
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509

from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.glusterfs import nfs_certificate
from lab import processes
from lab.heketi import fresh
from tests.drivers.contract.calls import settled
from tests.drivers.harness import GlusterfsHarness
from tests.drivers.test_glusterfs import volumes_of


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
    assert before < rig.driver.authority.ends_at
    assert abs(before - min(ends(rig))) < datetime.timedelta(minutes=1)
    rig.share()
    assert abs(told(rig.driver) - before) < datetime.timedelta(minutes=1)


def test_a_node_that_was_added_has_a_certificate_as_soon_as_the_pool_was_looked_at(rig):
    """Heketi moves bricks to it without asking anybody."""
    rig.driver.pools()
    place = rig.bed.nodes.ssl(rig.bed.nodes.hosts[-1])
    for file in list(place.iterdir()):
        file.unlink()
    heketi = rig.bed.heketi
    (cluster,) = heketi.clusters.values()
    added = heketi.nodes.pop(cluster["nodes"].pop())
    added["id"] = fresh()
    heketi.nodes[added["id"]] = added
    cluster["nodes"].append(added["id"])
    rig.driver.pools()
    pem = x509.load_pem_x509_certificate((place / "glusterfs.pem").read_bytes())
    assert pem.subject.rfc4514_string() == f"CN=abaca-node-{added['id']}"
    assert abs(told(rig.driver) - min(ends(rig))) < datetime.timedelta(minutes=1)


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
    for seen in (driver, rig.build()):  # volumes serve by the former ones still, of which a worker that comes knows
        seen.log_in()
        assert told(seen) <= max(before)
    assert not any("stop" in words for words in rig.bed.gluster.commands)

    assert f"volume abaca_{share.id}: started anew" in list(driver.renew(restarts=True))
    stopped = [words[3] for words in rig.bed.gluster.commands if words[1:3] == ["volume", "stop"]]
    assert stopped == [f"abaca_{share.id}"]
    assert (rig.volume(share).is_started, rig.volume(share).is_open, rig.read(share)) == (True, False, "text")
    assert rig.bed.gluster.volumes["theirs"].is_started
    assert told(driver) > max(before)
    assert {one.name for one in rig.bed.nodes.ssl("127.0.7.1").iterdir()} == {
        f"glusterfs.{end}" for end in ("pem", "key", "ca")
    }


def test_certificates_that_are_renewed_by_the_way_are_told_of_until_volumes_are_started_anew(rig, caplog):
    rig.share()
    old = ends(rig)
    driver = rig.start()  # of another lifetime: those that there are end soon
    rig.share()
    assert min(ends(rig)) > max(old)
    assert told(driver) <= max(old)
    assert "the old certificate ends in 10 days: `abaca certificate renew --restart`" in caplog.text
    list(driver.renew(restarts=True))
    assert told(driver) > max(old)


def test_what_gluster_cannot_do_since_certificates_have_ended_says_so(rig):
    share = rig.share()
    place, then = rig.directory / "authority", datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=9)
    authority = Authority(place / "ca.pem", place / "ca.key", now=lambda: then, days=7)
    for host, id in zip(rig.bed.nodes.hosts, rig.bed.heketi.nodes, strict=True):
        files = rig.bed.nodes.ssl(host)
        words = ["req", "-new", "-key", str(files / "glusterfs.key"), "-subj", f"/CN=abaca-node-{id}"]
        request = processes.command(["openssl", *words])
        (files / "glusterfs.pem").write_text(authority.sign(request, f"abaca-node-{id}"))
    rig.bed.gluster.refuses["quota"] = "quota command failed : Failed to start aux mount"
    with pytest.raises(contract.Refused, match=r"node 127.0.7.1 ended 2 days ago.*renew --restart` mends it"):
        rig.start().shrink(share, 1)
    rig.bed.gluster.refuses.clear()
    list(rig.driver.renew(restarts=True))
    rig.bed.gluster.refuses["quota"] = "quota command failed : Failed to start aux mount"
    with pytest.raises(contract.Refused, match="gluster says: quota command failed"):
        rig.driver.shrink(share, 1)
    rig.bed.gluster.refuses.clear()


def test_workers_that_see_to_a_node_in_the_same_second_leave_one_pair_there(rig):
    """Each makes a share, of those that are the first on nodes without certificates."""
    for _ in range(3):
        shares = [rig.instance() for _ in range(3)]
        for host in rig.bed.nodes.hosts:
            for file in rig.bed.nodes.ssl(host).iterdir():
                file.unlink()
        together = threading.Barrier(len(shares))

        def make(share, together=together):
            driver = rig.build(certificate_days="10")
            driver.start()
            together.wait(20)
            assert settled(driver.create, share).exports
            driver.stop()

        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(make, shares))
        left = {left_on(rig, host) for host in rig.bed.nodes.hosts}
        assert left == {("glusterfs.ca", "glusterfs.key", "glusterfs.pem")}


def left_on(rig, host):
    """The names of the files for certificates of a node, whose key and certificate belong together."""
    place = rig.bed.nodes.ssl(host)
    certified = processes.command(["openssl", "x509", "-in", str(place / "glusterfs.pem"), "-noout", "-pubkey"])
    assert certified == processes.command(["openssl", "pkey", "-in", str(place / "glusterfs.key"), "-pubout"])
    assert (place / "glusterfs.key").stat().st_mode & 0o777 == 0o600
    return tuple(sorted(file.name for file in place.iterdir()))


# What is not ours


@pytest.fixture
def strange(rig):
    """The directory of a node's certificates, empty; afterwards it has what it had."""
    place = rig.bed.nodes.ssl("127.0.7.3")
    kept = place.with_name("kept")
    place.rename(kept)
    place.mkdir()
    yield place
    shutil.rmtree(place)
    kept.rename(place)


def have_key(place):
    processes.command(["openssl", "genrsa", "-out", str(place / "glusterfs.key"), "2048"])


def have_certificate(rig, place, name):
    have_key(place)
    words = ["openssl", "req", "-new", "-key", str(place / "glusterfs.key"), "-subj", f"/CN={name}"]
    (place / "glusterfs.pem").write_text(rig.driver.authority.sign(processes.command(words), name))


def refused(rig, place, says):
    """No volume is made, and everything on the node is as it was."""
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    share = rig.instance()
    with pytest.raises(contract.Refused, match=says):
        rig.start().create(share)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
    assert volumes_of(rig, share) == []


def test_a_certificate_of_the_same_authority_with_another_name_stays(rig, strange):
    have_certificate(rig, strange, "host1")
    refused(rig, strange, r"127.0.7.3, /etc/ssl/glusterfs.pem: it has a certificate of CN=host1; move it away")


def test_a_key_of_nobodys_stays(rig, strange):
    have_key(strange)
    refused(rig, strange, r"127.0.7.3, /etc/ssl/glusterfs.key: it has a key of nobody's; move it away")


def test_authorities_of_others_stay_and_ours_may_stand_beside_them(rig, strange, tmp_path):
    theirs = Authority(tmp_path / "ca.pem", tmp_path / "ca.key", days=7)
    theirs.make()
    (strange / "glusterfs.ca").write_text(theirs.pem)
    refused(rig, strange, r"127.0.7.3, /etc/ssl/glusterfs.ca: it has other authorities; add what")
    both = theirs.pem + rig.driver.authority.pem
    (strange / "glusterfs.ca").write_text(both)
    rig.driver.delete(rig.share())
    list(rig.driver.renew(restarts=False))
    assert (strange / "glusterfs.ca").read_text() == both


def test_a_node_that_heketi_has_under_another_id_by_now_gets_a_certificate_of_that(rig, strange):
    have_certificate(rig, strange, "abaca-node-former")
    rig.start().delete(rig.share())
    assert b"former" not in (strange / "glusterfs.pem").read_bytes()
    assert "CN=abaca-node-former" not in processes.command(
        ["openssl", "x509", "-noout", "-subject", "-nameopt", "rfc2253", "-in", str(strange / "glusterfs.pem")]
    )


def test_whoever_was_killed_between_key_and_certificate_is_followed(rig, strange):
    have_key(strange)
    (strange / "glusterfs.ca").write_text(rig.driver.authority.pem)
    rig.start().delete(rig.share())
    assert left_on(rig, "127.0.7.3") == ("glusterfs.ca", "glusterfs.key", "glusterfs.pem")


# Another authority


def test_another_authority_takes_the_place_of_the_first_as_the_page_says(rig):
    share = rig.share()
    rig.driver.stop()
    for file in (rig.directory / "authority").iterdir():
        file.unlink()
    driver = rig.start()
    with pytest.raises(contract.Refused, match="it has a certificate of"):
        driver.create(rig.instance())
    for host in rig.bed.nodes.hosts:
        for name in ("glusterfs.pem", "glusterfs.key", "glusterfs.ca", ".abaca.former"):
            (rig.bed.nodes.ssl(host) / name).unlink(missing_ok=True)
    said = list(rig.start().renew(restarts=True))
    assert f"volume abaca_{share.id}: started anew" in said
    for host in rig.bed.nodes.hosts:
        assert left_on(rig, host) == ("glusterfs.ca", "glusterfs.key", "glusterfs.pem")
        assert (rig.bed.nodes.ssl(host) / "glusterfs.ca").read_text() == rig.driver.authority.pem
    rig.driver.delete(share)


# Volumes that are started anew


def test_a_volume_that_cannot_be_started_anew_holds_up_no_other_and_one_that_was_left_stopped_is_started(rig):
    first, second = rig.share(), rig.share()
    for share in (first, second):
        rig.volume(share).is_started = False
    rig.bed.gluster.says += ["volume start: failed: Another transaction is in progress"]
    said = []
    with pytest.raises(contract.Busy, match="Another transaction"):
        said += rig.driver.renew(restarts=True)
    assert {rig.volume(share).is_started for share in (first, second)} == {True, False}
    assert any("started anew" in line for line in rig.driver.renew(restarts=True))
    assert rig.volume(first).is_started
    assert rig.volume(second).is_started
    for share in (first, second):
        rig.driver.delete(share)


# The certificate of the NFS server


@pytest.fixture
def of_nfs(rig):
    """`of_nfs(days)`: the NFS server's certificate, as the authority signs it that signs for so many days."""

    def of_nfs(days):
        own = rig.directory / "authority"
        return nfs_certificate.of(rig.directory, Authority(own / "ca.pem", own / "ca.key", days=days))

    return of_nfs


def test_the_nfs_server_has_a_certificate_that_is_renewed_before_it_ends(of_nfs, caplog):
    made = of_nfs(20)
    assert (made.days_left(), made.ends_at()) == (None, None)
    made.see_to_it()
    first = made.link.resolve()
    assert (round(made.days_left()), {one.name for one in first.iterdir()}) == (
        20,
        {f"glusterfs.{end}" for end in ("pem", "key", "ca")},
    )
    pem = x509.load_pem_x509_certificate((first / "glusterfs.pem").read_bytes())
    assert pem.subject.rfc4514_string() == "CN=abaca-nfs"
    assert (first / "glusterfs.key").stat().st_mode & 0o777 == 0o600
    of_nfs(20).see_to_it()
    assert made.link.resolve() == first
    of_nfs(1825).see_to_it()
    assert made.link.resolve() != first
    assert round(made.days_left()) == 1825
    assert "NFS-Ganesha's certificate ends in 20 days: it is started anew with another" in caplog.text


def test_a_certificate_of_another_authority_or_key_is_replaced_and_old_ones_go(of_nfs, rig):
    made = of_nfs(1825)
    made.renew()
    (made.link / "glusterfs.ca").write_text("another")
    assert made.days_left() is None
    made.see_to_it()
    (made.link / "glusterfs.key").write_text("no key")
    assert made.days_left() is None
    made.see_to_it()
    assert len([one for one in made.link.parent.iterdir() if one.is_dir() and not one.is_symlink()]) <= 2


def test_renewing_brings_the_nfs_server_a_new_certificate_too(rig, of_nfs):
    of_nfs(10).renew()
    first = of_nfs(10).link.resolve()
    driver = rig.build(export_ips="127.0.0.1")
    driver.log_in()
    assert not any("NFS-Ganesha" in line for line in driver.renew(restarts=False))
    assert of_nfs(10).link.resolve() == first
    (said,) = [line for line in driver.renew(restarts=True) if "NFS-Ganesha" in line]
    assert said == "NFS-Ganesha: a new certificate, it had one for 10 days; its worker starts it anew"
    assert of_nfs(10).link.resolve() != first
    driver.stop()


def test_nobody_else_has_the_name_of_the_nfs_server(rig):
    with pytest.raises(contract.Refused, match="abaca-nfs is the name of the NFS server"):
        rig.driver.issue("abaca-nfs", "")
    share = rig.share()
    rule = contract.AccessRule(id="r", type="cert", to="Abaca-NFS")
    assert rig.driver.set_access(share, [rule])["r"].state == "error"
    assert rig.clients(share) == set()
