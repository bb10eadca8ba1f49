# SPDX-License-Identifier: Apache-2.0
"""The client of Heketi, over Heketi 9.0.0 with its mock executor, and over a double that answers as it does."""

import contextlib
import dataclasses
import http.server
import json
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
import requests

from abaca.drivers import contract
from abaca.drivers.clients import heketi
from lab import gluster_bed, heketi_server, processes, runs
from lab import heketi as double

RECORDINGS = Path(__file__).parent / "recordings" / "heketi.jsonl"
ID = re.compile("[0-9a-f]{32}")
EXTENT_KIB = 4096
REPLICA_3 = heketi.Durability("replicate", replicate=heketi.Copies(3))


@pytest.fixture
def served():
    """A Heketi without clusters, and its address."""
    made = double.Heketi()
    url = made.start()
    yield made, url
    made.stop()


@dataclasses.dataclass(frozen=True)
class Bare:
    """A Heketi without clusters; `load` makes one of nodes with one device each."""

    url: str
    key: bytes
    load: Callable[[Sequence[str]], str]


@pytest.fixture(params=["double", "itself"])
def bare(request, tmp_path):
    """The double, and Heketi itself, whose mock executor only says that it does what it is told."""
    if request.param == "double":
        made, url = request.getfixturevalue("served")
        yield Bare(url, double.KEY.encode(), made.stock)
        return
    try:
        heketi_server.program()
    except heketi_server.NotBuilt as problem:
        pytest.skip(f"NOT TESTED on this machine, the client of Heketi with a real one: {problem}")
    with runs.Run() as run:
        made = heketi_server.HeketiServer(run, tmp_path, None)
        made.start()
        yield Bare(made.url, heketi.read_key(made.key_file), made.load)


@pytest.fixture
def client(bare):
    """A client of a Heketi with one cluster of three nodes."""
    bare.load(["n1", "n2", "n3"])
    client = heketi.Heketi(bare.url, bare.key, timeout_s=20)
    yield client
    client.close()


@pytest.fixture
def stocked(served):
    """A Heketi with one cluster of three nodes, and a client."""
    made, url = served
    made.stock(["n1", "n2", "n3"])
    client = heketi.Heketi(url, double.KEY.encode(), timeout_s=20)
    yield made, client
    client.close()


def order(client, name="v", size=2):
    return heketi.Order(name, size, REPLICA_3, list(client.clusters()), ["user.abaca.instance v"])


def made_by(client, name="v", size=2):
    place = gluster_bed.result(client, client.make(order(client, name, size)))
    return client.volume(place.rpartition("/")[2])


# The double


class Replay:
    """Recorded requests, told to another Heketi under the ids that it gives."""

    def __init__(self, url, key):
        self.url, self.key, self.ids = url, key, {}

    def ours(self, text):
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def answer(self, recorded):
        asked = recorded["request"]
        path, headers = self.ours(asked["path"]), {}
        claims = asked["claims"]
        if isinstance(claims, str):
            headers["Authorization"] = claims
        elif claims is not None:
            headers["Authorization"] = f"bearer {self.token(recorded, path)}"
        body = None if asked["body"] is None else self.ours(asked["body"]).encode()
        (given,) = processes.wait_until(
            lambda: self.ended(asked["method"], self.url + path, body, headers), processes.PATIENCE_S, recorded["note"]
        )
        place = given.headers.get("Location", "")
        pairs = [(recorded["response"]["location"], place), (recorded["response"]["body"], given.text)]
        for theirs, ours in pairs:
            if given.status_code in {201, 202, 303}:
                self.ids.update(zip(ID.findall(theirs), ID.findall(ours), strict=False))
        return given.status_code, shape(given.text)

    @staticmethod
    def ended(method, url, body, headers):
        """What came of a request, alone in a tuple; None while the work that it asks after goes on."""
        given = requests.request(method, url, data=body, headers=headers, timeout=20, allow_redirects=False)
        return None if given.headers.get("X-Pending") == "true" else (given,)

    def token(self, recorded, path):
        """A token as old, and as wrong, as the recorded one."""
        claims, now_s = dict(recorded["request"]["claims"]), time.time()
        for name in {"iat", "exp"} & claims.keys():
            claims[name] = int(now_s + claims[name] - recorded["at"])
        if claims.get("qsh", "0")[0] != "0":
            claims["qsh"] = ""
        key = "another key that has its thirty-two bytes" if recorded["note"] == "wrong key" else self.key
        given = {name: claims.get(name) for name in ("iss", "iat", "exp", "qsh")}
        if given["qsh"] == "":
            del given["qsh"]
        return double.signed(recorded["request"]["method"], path.partition("?")[0], key, **given)


def shape(text):
    """What is compared: of JSON the names in it, of other text the words without ids and durations."""
    try:
        found = json.loads(text)
    except ValueError:
        return re.sub(r"expired by \S+", "expired by T", ID.sub("ID", text)).strip()
    return sorted(found) if isinstance(found, dict) else found


def test_the_double_and_heketi_itself_answer_as_heketi_was_recorded_to_answer(bare):
    replay = Replay(bare.url, bare.key.decode())
    differ = []
    for recorded in map(json.loads, RECORDINGS.read_text().splitlines()):
        wanted = recorded["response"]["status"], shape(recorded["response"]["body"])
        given = replay.answer(recorded)
        if given != wanted:
            differ.append((recorded["note"], given, wanted))
    assert differ == []


# Letting in


def test_a_token_is_good_for_one_request_alone(bare, client):
    name = heketi.token(bare.key, "GET", "/volumes", time.time())
    answers = [
        requests.get(f"{client.url}{path}", headers={"Authorization": f"bearer {name}"}, timeout=20).status_code
        for path in ("/volumes", "/clusters")
    ]
    assert answers == [200, 401]


def test_a_wrong_key_is_told_by_the_option_that_names_it(client):
    client = heketi.Heketi(client.url, b"another key that has its thirty-two bytes", timeout_s=20)
    with pytest.raises(contract.Refused, match=r"heketi_key_file does not hold jwt\.admin\.key") as refused:
        client.clusters()
    assert "another key" not in str(refused.value)


@pytest.mark.parametrize(("clock_s", "said"), [(-600.0, "600 s behind"), (600.0, "600 s ahead of")])
def test_clocks_that_differ_are_told_in_words(stocked, clock_s, said):
    made, client = stocked
    made.clock_s = clock_s
    with pytest.raises(contract.Refused, match="the clock of Heketi is") as refused:
        client.clusters()
    found = re.search(r"is (\d+) s (behind|ahead of)", str(refused.value))
    assert abs(int(found[1]) - 600) <= 5
    assert said.endswith(found[2])


def test_clocks_may_differ_by_less_than_two_minutes(stocked):
    made, client = stocked
    for made.clock_s in (-100.0, 100.0):
        assert len(client.clusters()) == 1


def test_a_key_is_read_from_its_file_without_the_space_around_it(tmp_path):
    file = tmp_path / "key"
    file.write_text(" secret\n")
    assert heketi.read_key(file) == b"secret"
    file.write_text("\n")
    with pytest.raises(contract.Refused, match="holds no key"):
        heketi.read_key(file)
    with pytest.raises(contract.Refused, match="cannot be read"):
        heketi.read_key(tmp_path / "none")


@pytest.fixture
def behind_tls(tmp_path):
    """A Heketi behind TLS, its address, and the file that proves it."""
    key, pem = tmp_path / "k", tmp_path / "c"
    subject = ("-subj", "/CN=heketi", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, *subject]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    made = double.Heketi()
    yield made.start(context), str(pem)
    made.stop()


def test_a_heketi_behind_tls_must_be_proved(behind_tls):
    url, pem = behind_tls
    proved = heketi.Heketi(url, double.KEY.encode(), ca_file=pem, timeout_s=20)
    assert proved.clusters() == []
    proved.close()
    unproved = heketi.Heketi(url, double.KEY.encode(), timeout_s=20)
    with pytest.raises(contract.Refused, match="heketi_ca_file must prove it"):
        unproved.clusters()
    unproved.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(stocked, status):
    """Whoever answers in Heketi's place gets no token that is good elsewhere, and no order is given to another."""
    made, client = stocked

    class Redirecting(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Location", client.url + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        sent = heketi.Heketi(f"http://127.0.0.1:{server.server_port}", double.KEY.encode(), timeout_s=20)
        wanted = order(client)
        made.requests.clear()
        for ask in (sent.clusters, lambda: sent.make(wanted)):
            with pytest.raises(contract.Refused, match="is not answered as Heketi does"):
                ask()
        sent.close()
        server.shutdown()
    assert made.requests == []


@pytest.mark.parametrize("drips", [True, False])
def test_an_answer_that_has_no_end_is_given_up(drips):
    is_over = threading.Event()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            with contextlib.suppress(OSError):
                while not is_over.wait(0.05):
                    self.wfile.write(b" " if drips else b"")

        def log_message(self, *_):
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        asked = heketi.Heketi(f"http://127.0.0.1:{server.server_port}", double.KEY.encode(), timeout_s=1)
        with pytest.raises(contract.Unreachable, match="Heketi at http"):
            asked.clusters()
        is_over.set()
        asked.close()
        server.shutdown()


def test_all_nodes_away_may_pass(stocked):
    made, client = stocked
    volume = made_by(client)
    for said in ("No online storage devices", "no hosts available (1 total)", "all hosts failed (4 total, 3 tried)"):
        made.fails["delete-volume"] = said
        with pytest.raises(contract.Unreachable, match=re.escape(said)):
            gluster_bed.result(client, client.delete(volume.id))
        made.restart()
        made.fails.clear()
        gluster_bed.result(client, client.clean_up())
        volume = made_by(client)


def test_nobody_at_the_address_may_pass(served):
    made, url = served
    made.stop()
    client = heketi.Heketi(url, b"key", timeout_s=20)
    with pytest.raises(contract.Unreachable, match="Heketi at http"):
        client.clusters()


# What is done


def test_the_end_of_work_is_heard_once_and_its_loss_is_told(client):
    place = client.make(order(client))
    assert gluster_bed.result(client, place).startswith("/volumes/")
    with pytest.raises(heketi.Forgotten):
        gluster_bed.result(client, place)


def test_a_restart_forgets_the_queue_and_leaves_work_that_is_abandoned(stocked):
    made, client = stocked
    made.is_held = True
    place = client.make(order(client))
    made.restart()
    with pytest.raises(heketi.Forgotten):
        gluster_bed.result(client, place)
    (left,) = client.pending("create-volume")
    assert left.is_abandoned
    made.is_held = False
    gluster_bed.result(client, client.clean_up([left.id]))
    assert (client.pending("create-volume"), list(client.volumes())) == ([], [])


def test_looking_at_work_that_goes_on_does_not_wait_for_it(stocked):
    made, client = stocked
    made.is_held = True
    place = client.make(order(client))
    assert [client.look(place) for _ in range(3)] == [None] * 3
    made.release()
    assert gluster_bed.result(client, place).startswith("/volumes/")


def test_failures_are_told_apart_by_their_texts(client):
    volume = made_by(client)
    with pytest.raises(heketi.NameTaken, match="already in use"):
        client.make(order(client))
    with pytest.raises(contract.Full, match="a node is down"):
        client.make(order(client, "w", 10_000_000))
    with pytest.raises(contract.Full):
        client.expand(volume.id, 10_000_000)
    for ask in (client.volume, client.delete):
        with pytest.raises(contract.Gone):
            ask("0" * 32)


def test_who_has_enough_to_do_is_asked_again_later(stocked):
    made, client = stocked
    made.is_busy = True
    with pytest.raises(heketi.EnoughToDo, match="Server busy"):
        client.make(order(client))


@pytest.mark.parametrize("bare", ["itself"], indirect=True)
def test_heketi_itself_says_when_it_has_enough_to_do(client):
    def ordered(number):
        try:
            return gluster_bed.result(client, client.make(order(client, f"v{number}")))
        except contract.UnderWay as refused:
            return str(refused)

    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(ordered, range(60)))
    made = [one for one in told if one.startswith("/volumes/")]
    assert len(client.volumes()) == len(made) > 0
    assert {one for one in told if one not in made} == {
        "Heketi has enough to do, its turn comes later: Server busy. Retry operation later."
    }


def test_why_heketi_gave_up_is_told(stocked):
    made, client = stocked
    made.fails["create-volume"] = "volume set: failed: option : no.such-option does not exist"
    with pytest.raises(heketi.Failed, match="such-option"):
        gluster_bed.result(client, client.make(order(client)))


def test_a_volume_is_made_as_ordered_grows_by_the_difference_and_goes(client):
    volume = made_by(client, size=3)
    assert (volume.name, volume.size, volume.durability) == ("v", 3, REPLICA_3)
    assert "user.abaca.instance v" in volume.glustervolumeoptions
    gluster_bed.result(client, client.expand(volume.id, 2))
    assert client.volume(volume.id).size == 5
    gluster_bed.result(client, client.delete(volume.id))
    assert list(client.volumes()) == []


def used_kib(client):
    nodes = [client.node(node) for cluster in client.clusters() for node in client.cluster(cluster).nodes]
    return [device.storage.used for node in nodes for device in node.devices]


def test_a_volume_with_room_for_snapshots_takes_that_of_the_devices_and_gives_it_back(client):
    room = heketi.SnapshotRoom(enable=True, factor=3)
    place = gluster_bed.result(client, client.make(msgspec.structs.replace(order(client), snapshot=room)))
    volume = client.volume(place.rpartition("/")[2])
    assert (volume.snapshot, used_kib(client)) == (room, [(6 << 20) + 8 * EXTENT_KIB] * 3)
    gluster_bed.result(client, client.expand(volume.id, 1))
    assert used_kib(client) == [(9 << 20) + 12 * EXTENT_KIB] * 3
    gluster_bed.result(client, client.delete(volume.id))
    assert used_kib(client) == [0] * 3
    assert made_by(client).snapshot == heketi.SnapshotRoom(enable=False, factor=1)


def test_a_volume_that_has_snapshots_is_stopped_and_not_deleted(stocked):
    made, client = stocked
    volume = made_by(client)
    made.gluster.snapshots["s"] = "v"
    with pytest.raises(heketi.Failed, match="it has 1 snapshots"):
        gluster_bed.result(client, client.delete(volume.id))
    assert (list(client.volumes()), made.gluster.volumes["v"].is_started) == ([volume.id], False)
