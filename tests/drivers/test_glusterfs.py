# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver where Heketi, nodes, names and certificates are not as they should be."""

import datetime
import shutil
import subprocess

import msgspec
import pytest
from cryptography import x509

from abaca.drivers import contract
from abaca.drivers.clients import gluster
from abaca.drivers.glusterfs.names import clients_in
from abaca.nodes.shell import KILLED, Answer
from lab import gluster_bed
from tests.drivers.harness import GlusterfsHarness

GIB = 1 << 30


@pytest.fixture(scope="module")
def shared():
    """One bed for all tests; each uses instances of its own, and leaves Heketi and the nodes in order."""
    made = GlusterfsHarness()
    made.start()
    yield made
    made.close()


@pytest.fixture
def rig(shared):
    yield shared
    heketi = shared.bed.heketi
    heketi.is_busy, heketi.cleans_in_vain, heketi.clock_s = False, False, 0.0
    heketi.fails.clear()
    heketi.release()
    shared.bed.gluster.says.clear()
    shared.bed.gluster.refuses.clear()
    shared.bed.nodes.anew.clear()


@pytest.fixture
def driver(rig):
    return rig.driver


def volumes_of(rig, share):
    """The volumes that Heketi has under the share's name, those that it hides included."""
    heketi = rig.bed.heketi
    return [one for one in (*heketi.volumes.values(), *heketi.hidden.values()) if one["name"] == f"abaca_{share.id}"]


def certs(*names, level="rw"):
    return [contract.AccessRule(id=name, type="cert", to=name, level=level) for name in names]


# Made, and found again


def test_a_volume_is_sealed_marked_and_kept_three_times_from_its_first_moment(rig, driver):
    share = rig.instance()
    driver.create(share)
    (volume,) = volumes_of(rig, share)
    nodes = sorted(f"abaca-node-{id}" for id in rig.bed.heketi.nodes)
    ordered = (
        "client.ssl on server.ssl on features.soft-timeout 0 features.hard-timeout 0 "
        f"auth.ssl-allow {','.join(nodes)} user.abaca.limit later user.abaca.instance {share.id}"
    )
    assert volume["glustervolumeoptions"][1:-1] == [ordered]
    assert volume["durability"]["replicate"] == {"replica": 3}
    driver.delete(share)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("replica 2", {"type": "replicate", "replicate": {"replica": 2}, "disperse": {}}),
        ("disperse 2+1", {"type": "disperse", "replicate": {}, "disperse": {"data": 2, "redundancy": 1}}),
        ("none", {"type": "none", "replicate": {}, "disperse": {}}),
    ],
)
def test_a_share_type_says_how_a_share_is_kept(rig, driver, words, kept):
    share = rig.instance(extra_specs={"glusterfs:durability": words})
    driver.create(share)
    assert volumes_of(rig, share)[0]["durability"] == kept
    driver.delete(share)


@pytest.mark.parametrize(
    "specs",
    [
        {"glusterfs:durability": ""},
        {"glusterfs:durability": "replica 1"},
        {"glusterfs:durability": "disperse 5+1"},
        {"glusterfs:volume_options": "auth.ssl-allow *"},
        {"glusterfs:volume_options": "server.ssl off"},
        {"glusterfs:volume_options": "ssl-allow bob"},
        {"glusterfs:volume_options": "group virt"},
        {"glusterfs:volume_options": "features.quota off"},
        {"glusterfs:volume_options": "performance.cache-size 64MB; reboot"},
        {"glusterfs:volume_options": "cache"},
    ],
)
def test_a_share_type_that_asks_for_nonsense_or_an_open_volume_makes_nothing(rig, driver, specs):
    share = rig.instance(extra_specs=specs)
    with pytest.raises(contract.Refused, match="glusterfs:"):
        driver.create(share)
    assert volumes_of(rig, share) == []


def test_options_of_a_share_type_are_set(rig, driver):
    share = rig.share(extra_specs={"glusterfs:volume_options": "performance.cache-size 64MB, cluster.eager-lock on"})
    options = rig.volume(share).options
    assert (options["performance.cache-size"], options["cluster.eager-lock"]) == ("64MB", "on")
    driver.delete(share)


def test_a_volume_of_our_name_that_somebody_else_made_is_left_alone(rig, driver):
    share = rig.instance()
    heketi = driver.client
    order = {"name": f"abaca_{share.id}", "size": 1, "durability": {"type": "none"}}
    gluster_bed.result(heketi, heketi.make(order))
    with pytest.raises(contract.Refused, match="somebody else made"):
        driver.create(share)
    driver.delete(share)
    assert len(volumes_of(rig, share)) == 1


def test_volumes_that_bear_our_name_are_named_and_no_others(rig, driver):
    share, heketi = rig.instance(), driver.client
    driver.create(share)
    for name in ("abaca_nobodys", "vol_other", "other_abaca_"):
        gluster_bed.result(heketi, heketi.make({"name": name, "size": 1, "durability": {"type": "none"}}))
    named = driver.instances_after("", 1000)
    assert {share.id, "nobodys"} <= set(named)
    assert not {"other", "vol_other", ""} & set(named)
    for name in ("abaca_nobodys", "vol_other", "other_abaca_"):
        driver.volumes.delete(driver.volumes.named(name))
    driver.delete(share)


def test_what_heketi_says_when_it_gives_up_is_told(rig, driver):
    rig.bed.heketi.fails["create-volume"] = "volume create: abaca: failed: /brick is already part of a volume"
    with pytest.raises(contract.Refused, match="already part of a volume"):
        driver.create(rig.instance())


# Sizes


def test_a_volume_grows_by_the_difference_only_when_its_room_does_not_do(rig, driver):
    share = rig.share(size_gib=10)
    (volume,) = volumes_of(rig, share)
    assert volume["size"] == 11
    driver.shrink(share, 4)
    driver.extend(share, 10)
    assert (volume["size"], rig.size_gib(share)) == (11, 10)
    driver.extend(share, 100)
    assert (volume["size"], rig.size_gib(share)) == (102, 100)
    driver.delete(share)


def test_bricks_are_on_disks_before_anybody_hears_of_them(rig, driver):
    """Heketi does not see to that: a power cut would take a brick from the next start of its node."""
    nodes = rig.bed.nodes
    for size_gib in (1, 20):
        before = len(nodes.scripts)
        if size_gib == 1:
            share = rig.share()
        else:
            driver.extend(share, size_gib)
        written = {host: words[2:] for host, words in nodes.scripts[before:] if words[:2] == ["sync", "-f"]}
        placed = [brick.partition(":") for brick in rig.volume(share).bricks]
        assert written.keys() == set(nodes.hosts)
        assert all(path in written[host] for host, _, path in placed)
    driver.delete(share)


# Certificates and names


def test_every_node_has_a_certificate_before_a_volume_is_made_and_gets_a_lost_one_again(rig, driver):
    driver.delete(rig.share())
    bed = rig.bed
    shutil.rmtree(bed.nodes.ssl("127.0.7.2"))
    bed.nodes.ssl("127.0.7.2").mkdir()
    rig.start()
    share = rig.share()
    for id, node in bed.heketi.nodes.items():
        place = bed.nodes.ssl(node["hostnames"]["manage"][0])
        pem = x509.load_pem_x509_certificate((place / "glusterfs.pem").read_bytes())
        assert pem.subject.rfc4514_string() == f"CN=abaca-node-{id}"
        assert (place / "glusterfs.ca").read_text() == rig.driver.authority.pem
        assert (place / "glusterfs.key").stat().st_mode & 0o777 == 0o600
        assert {one.name for one in place.iterdir()} == {f"glusterfs.{end}" for end in ("pem", "key", "ca")}
    rig.driver.delete(share)


def test_a_certificate_that_ends_soon_is_renewed_and_the_operator_told(rig, caplog):
    place = rig.bed.nodes.ssl("127.0.7.1")
    shutil.rmtree(place)
    place.mkdir()
    rig.start(certificate_days="10")
    share = rig.share()
    short = (place / "glusterfs.pem").read_bytes()
    rig.start(certificate_days="9").ensure([share])
    assert (place / "glusterfs.pem").read_bytes() == short
    rig.start().ensure([share])
    days = x509.load_pem_x509_certificate((place / "glusterfs.pem").read_bytes()).not_valid_after_utc
    assert days - x509.load_pem_x509_certificate(short).not_valid_after_utc > datetime.timedelta(days=1800)
    assert "127.0.7.1 the old certificate ends in 10 days" in caplog.text
    rig.driver.delete(share)


def test_a_node_with_a_certificate_of_another_authority_is_not_overwritten(rig):
    place = rig.bed.nodes.ssl("127.0.7.3")
    kept = place.with_name("kept")
    place.rename(kept)
    place.mkdir()
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=theirs", "-days", "2"]
    files = ["-keyout", place / "glusterfs.key", "-out", place / "glusterfs.pem"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    theirs = (place / "glusterfs.pem").read_bytes()
    share = rig.instance()
    driver = rig.start()
    with pytest.raises(contract.Refused, match=r"127.0.7.3, /etc/ssl/glusterfs.pem: it has a certificate of CN=theirs"):
        driver.create(share)
    assert (place / "glusterfs.pem").read_bytes() == theirs
    assert volumes_of(rig, share) == []
    shutil.rmtree(place)
    kept.rename(place)


@pytest.mark.parametrize(
    "name", ["a,b", "a b", "a\nb", "*", "alic?", "[a-z]", "-v", "$(reboot)", "a;b", "a'b", "abaca-node-1", "x" * 65]
)
def test_a_name_that_gluster_would_read_otherwise_lets_nobody_in(rig, driver, name):
    share = rig.share()
    before = rig.volume(share).options["auth.ssl-allow"]
    (outcome,) = driver.set_access(share, certs(name)).values()
    assert (outcome.state, bool(outcome.reason)) == ("error", True)
    assert rig.volume(share).options["auth.ssl-allow"] == before
    driver.delete(share)


def test_a_level_that_cannot_be_had_is_refused_with_the_reason(rig, driver):
    share = rig.share()
    outcomes = driver.set_access(share, [*certs("alice", level="ro"), *certs("bob")])
    assert set(outcomes) == {"alice"}
    assert "only the level rw" in outcomes["alice"].reason
    assert rig.clients(share) == {("bob", "rw")}
    driver.delete(share)


def test_more_names_than_gluster_bears_are_refused_and_the_first_let_in(rig, driver):
    share = rig.share()
    rules = certs(*(f"client-{number:04}.example.org" for number in range(400)))
    outcomes = driver.set_access(share, rules)
    let_in = {name for name, _ in rig.clients(share)}
    assert let_in == {rule.to for rule in rules[: len(let_in)]}
    assert len(let_in) > 150
    assert set(outcomes) == {rule.id for rule in rules} - let_in
    assert all("take other rules away" in outcome.reason for outcome in outcomes.values())
    known = rig.known(share, rules=rules)
    assert driver.ensure([known]) == {}
    assert driver.set_access(share, rules[350:]) == {}
    driver.delete(share)


def test_a_node_that_comes_to_the_cluster_is_let_in_by_ensuring(rig, driver):
    share = rig.share()
    driver.set_access(share, certs("alice"))
    known = rig.known(share)
    volume = rig.volume(share)
    volume.options["auth.ssl-allow"] = "alice"
    assert driver.inspect([known])[share.id].repairs == ["not all nodes were let in"]
    driver.ensure([known])
    assert len(volume.options["auth.ssl-allow"].split(",")) == 4
    assert rig.clients(share) == {("alice", "rw")}
    driver.delete(share)


def test_a_volume_that_was_open_stays_one_to_be_sealed_until_it_was_started_anew(rig, driver):
    known = rig.known(rig.share())
    volume = rig.volume(known)
    volume.options |= {"client.ssl": "off"}
    volume.is_open = True
    rig.bed.gluster.refuses["stop"] = "volume stop: failed: Another transaction is in progress"
    assert driver.ensure([known])[known.id].is_failed
    rig.bed.gluster.refuses.clear()
    assert driver.ensure([known])[known.id].repairs == ["client.ssl was not on"]
    assert (volume.is_open, volume.is_started, volume.options["client.ssl"]) == (False, True, "on")
    driver.delete(known)


@pytest.mark.parametrize("option", ["features.quota", "features.soft-timeout", "features.hard-timeout"])
def test_a_volume_on_which_somebody_ended_counting_at_once_is_counted_again(rig, driver, option):
    known = rig.known(rig.share())
    volume = rig.volume(rig.used(known))
    counted = dict(volume.options)
    del volume.options[option]
    volume.limit_bytes = None
    assert driver.inspect([known])[known.id].repairs == ["what it holds was not counted"]
    assert driver.ensure([known])[known.id].repairs == ["what it holds was not counted"]
    assert (volume.options, rig.size_gib(known)) == (counted, 1)
    driver.delete(known)


def test_the_limit_of_a_volume_that_its_nodes_do_not_get_into_is_not_asked_for(rig, driver):
    known = rig.known(rig.share())
    rig.volume(rig.used(known)).options |= {"client.ssl": "off"}
    rig.volume(known).limit_bytes = 3 * GIB
    rig.bed.gluster.refuses["quota"] = "quota command failed : Failed to start aux mount"
    assert driver.inspect([known])[known.id].repairs == ["client.ssl was not on"]
    rig.bed.gluster.refuses.clear()
    assert driver.ensure([known])[known.id].repairs == ["client.ssl was not on"]
    assert rig.size_gib(known) == 1
    driver.delete(known)


# What fails


def test_another_node_answers_for_one_that_is_away(rig, driver):
    share = rig.share()
    first = rig.bed.nodes.hosts[0]
    rig.bed.nodes.kill(first)
    driver.set_access(share, certs("alice"))
    assert rig.clients(share) == {("alice", "rw")}
    rig.bed.nodes.revive(first)
    driver.delete(share)


def test_shares_are_ensured_while_a_node_is_away(rig):
    known = rig.known(rig.share())
    rig.volume(known).is_started = False
    driver = rig.start()
    rig.bed.nodes.kill("127.0.7.2")
    outcome = driver.ensure([known])[known.id]
    rig.bed.nodes.revive("127.0.7.2")
    assert (outcome.is_failed, outcome.repairs, rig.volume(known).is_started) == (False, ["it was not started"], True)
    driver.delete(known)


def test_nodes_that_were_made_anew_and_know_of_no_volume_are_not_believed_alone(rig, driver):
    known = rig.known(rig.share())
    rig.bed.nodes.anew = set(rig.bed.nodes.hosts[:2])
    assert driver.ensure([known]) == {}
    rig.bed.nodes.anew = set(rig.bed.nodes.hosts)
    assert driver.ensure([known])[known.id].status == "error"
    rig.bed.nodes.anew = set()
    driver.delete(known)


def test_heketi_that_believes_all_nodes_to_be_down_is_asked_again(rig, driver):
    for node in rig.bed.heketi.nodes.values():
        node["state"] = "offline"
    with pytest.raises(contract.Unreachable, match="all nodes are down"):
        driver.create(rig.instance())
    for node in rig.bed.heketi.nodes.values():
        node["state"] = "online"


def test_without_any_node_it_may_pass(rig, driver):
    share = rig.share()
    hosts = rig.bed.nodes.hosts
    for host in hosts:
        rig.bed.nodes.kill(host)
    with pytest.raises(contract.Unreachable, match=r"127\.0\.7\."):
        driver.set_access(share, certs("alice"))
    for host in hosts:
        rig.bed.nodes.revive(host)
    driver.set_access(share, certs("alice"))
    driver.delete(share)


def test_rules_are_one_command_by_ssh_which_sets_nothing_where_nothing_changes(rig, driver):
    share = rig.share()
    driver.set_access(share, certs("alice"))
    for names, verbs in ((["alice", "bob"], ["info", "set"]), (["bob", "alice"], ["info"]), ([], ["info", "set"])):
        rig.bed.nodes.scripts.clear()
        rig.bed.gluster.commands.clear()
        driver.set_access(share, certs(*names))
        assert [words[2] for words in rig.bed.gluster.commands] == verbs
        assert len(rig.bed.nodes.scripts) == 1
        assert clients_in(rig.volume(share).options["auth.ssl-allow"]) == set(names)
    driver.delete(share)


@pytest.mark.parametrize("mark", ["another", None])
def test_rules_let_nobody_into_a_volume_that_is_no_longer_the_shares(rig, driver, mark):
    share = rig.share()
    driver.set_access(share, certs("alice"))
    options = rig.volume(share).options
    ours = options.pop("user.abaca.instance")
    if mark is not None:
        options["user.abaca.instance"] = mark
    before = dict(options)
    with pytest.raises(contract.Gone, match="no longer"):
        driver.set_access(share, certs("bob"))
    assert options == before
    options["user.abaca.instance"] = ours
    driver.delete(share)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Another transaction is in progress for v. Please try again after some time.", contract.Busy),
        ("Error : Request timed out", contract.Busy),
        ("snapshot create: failed: One or more bricks are not running.", contract.Busy),
        ("Connection failed. Please check if gluster daemon is operational.", contract.Unreachable),
        ("volume set: failed: option : auth.ssl-allow does not exist", contract.Refused),
        ("volume reset: failed: Option user.x does not exist Did you mean cluster.rebalance-stats?", contract.Refused),
    ],
)
def test_what_gluster_says_is_told_apart(rig, driver, said, error):
    share = rig.share()
    rig.bed.gluster.says += [said] * 3
    with pytest.raises(error, match=said[:20]):
        driver.set_access(share, certs("alice"))
    rig.bed.gluster.says.clear()
    driver.delete(share)


def test_a_volume_that_vanished_behind_our_back_is_told_and_can_be_deleted(rig, driver):
    share = rig.share()
    rig.bed.gluster.delete(f"abaca_{share.id}")
    assert driver.ensure([share])[share.id].status == "error"
    with pytest.raises(contract.Gone):
        driver.extend(share, 2)
    driver.delete(share)
    assert volumes_of(rig, share) == []


def test_a_command_that_was_killed_may_be_tried_again():
    assert isinstance(gluster.failure(Answer(KILLED, "", "")), contract.Busy)


def test_what_gluster_has_lost_is_deleted_for_nobody_but_its_share(rig, driver):
    share = rig.share()
    stranger = rig.instance(exports=driver.create(share).exports)
    rig.bed.gluster.delete(f"abaca_{share.id}")
    driver.delete(stranger)
    assert len(volumes_of(rig, share)) == 1
    driver.delete(share)
    assert volumes_of(rig, share) == []


def test_a_share_that_is_anothers_by_now_is_touched_by_nobody_else(rig, driver):
    old = rig.share("text")
    exports = driver.create(old).exports
    driver.unmanage(old)
    new = rig.instance(exports=exports)
    driver.manage(new, {})
    driver.delete(msgspec.structs.replace(old, exports=exports))
    assert rig.read(new) == "text"
    with pytest.raises(contract.Refused, match="that of instance"):
        driver.manage(rig.instance(exports=exports), {})
    driver.delete(new)
