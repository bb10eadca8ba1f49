# SPDX-License-Identifier: Apache-2.0
"""Heketi, which makes GlusterFS volumes: its REST interface call by call. Nothing is decided here.

Every request is signed by itself, with a token that is good for this method and path. No redirect is followed. Work
that Heketi does in its own time has a place in its queue, whose answer is given once: who asks again, or after Heketi
was started anew, hears that there is no such place.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import urllib3

from abaca.drivers import contract
from abaca.drivers.clients import gluster

T = TypeVar("T")

TOKEN_S = 120
"""How long a token is good; Heketi bears a clock that is as far behind."""
MOST_BYTES = 64 * 1024 * 1024
"""What is read of an answer; one that is longer is not believed."""
_PART_BYTES = 256 * 1024
_LONGEST_TEXT = 300
# Answers that say that what stands before Heketi may do better later; Heketi itself says that it has enough to do.
_PASSING = frozenset((502, 503, 504))
_ENOUGH_TO_DO = 429
ADDS_BRICK = "Add brick"
"""What Heketi calls a change that makes a brick."""
_NO_NODES = ("No online storage devices", "no hosts available")
# A node that loses its power in the middle of a command is noticed by Heketi when the connection has been silent for
# minutes, or is reset because the node is back. Heketi passes on what its SSH says, and that is "EOF" at times.
_NODE_AWAY = re.compile(
    r"all hosts failed|(dial|read|write) tcp|\bEOF$|exited without exit status|SSH command timeout|ssh: disconnect"
    r"|unexpected packet in response to channel open|use of closed network connection"
)
_NO_ROOM = ("No space", "Maximum number of bricks reached", "Minimum brick size limit reached")


class NameTaken(contract.Refused):
    """A volume of that name exists already, or is being made: {reason}"""


class EnoughToDo(contract.UnderWay):
    """Heketi has enough to do, its turn comes later: {reason}"""


class Forgotten(contract.Gone):
    """Heketi knows nothing of that place in its queue any more: {reason}"""


class Failed(contract.Refused):
    """Heketi has given up: {reason}"""


class FailedForNow(contract.Unreachable):
    """Heketi has given up, and may do better later: {reason}"""


class Cluster(msgspec.Struct, frozen=True):
    """A cluster, with the ids of its nodes and volumes."""

    id: str
    nodes: Sequence[str] = ()
    volumes: Sequence[str] = ()


class Room(msgspec.Struct, frozen=True):
    """The room of a device, in KiB."""

    total: int
    free: int
    used: int


class Brick(msgspec.Struct, frozen=True):
    """A part of a volume on a device; its size in KiB, and where it is on the node."""

    id: str
    volume: str = ""
    node: str = ""
    size: int = 0
    path: str = ""


class Device(msgspec.Struct, frozen=True):
    """A disk of a node."""

    id: str
    name: str
    state: str
    storage: Room
    bricks: Sequence[Brick] = ()


class HostNames(msgspec.Struct, frozen=True):
    """Where a node is logged in to, and where clients reach its bricks."""

    manage: Sequence[str] = ()
    storage: Sequence[str] = ()


class Node(msgspec.Struct, frozen=True):
    """A machine of a cluster."""

    id: str
    state: str
    hostnames: HostNames
    cluster: str = ""
    devices: Sequence[Device] = ()


class Copies(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many copies there are of everything."""

    replica: int = 0


class Parts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many parts hold the data, and how many of them may be lost."""

    data: int = 0
    redundancy: int = 0


class Durability(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a volume survives the loss of nodes: `replicate`, `disperse`, or `none`."""

    type: str
    replicate: Copies = Copies()
    disperse: Parts = Parts()


class SnapshotRoom(msgspec.Struct, frozen=True):
    """How many times their size the thin pools of a volume's bricks have, where snapshots have room there."""

    enable: bool = False
    factor: float = 1


class Volume(msgspec.Struct, frozen=True):
    """A volume; its size in GiB."""

    id: str
    name: str
    size: int
    cluster: str
    durability: Durability
    bricks: Sequence[Brick] = ()
    glustervolumeoptions: Sequence[str] = ()
    snapshot: SnapshotRoom = SnapshotRoom()


class Order(msgspec.Struct, frozen=True):
    """A volume that is wanted: its size in GiB, the cluster that shall hold it, gluster's options.

    Each text is one command to gluster, and has one option or more, as `name value`.
    """

    name: str
    size: int
    durability: Durability
    clusters: Sequence[str]
    glustervolumeoptions: Sequence[str] = ()
    snapshot: SnapshotRoom = SnapshotRoom()


class Change(msgspec.Struct, frozen=True):
    """What pending work does to what."""

    id: str
    description: str


class Pending(msgspec.Struct, frozen=True):
    """Work that Heketi has begun and not ended; what it changes is only told of one that is asked for by its id."""

    id: str
    type_name: str
    status: str = ""
    sub_status: str = ""
    changes: Sequence[Change] = ()

    @property
    def is_abandoned(self) -> bool:
        """Nobody works on it any more, and only cleaning up takes it away."""
        return self.status in {"stale", "failed"}


class _Clusters(msgspec.Struct, frozen=True):
    clusters: Sequence[str]


class _Volumes(msgspec.Struct, frozen=True):
    volumes: Sequence[str]


class _PendingOperations(msgspec.Struct, frozen=True):
    pendingoperations: Sequence[Pending]


class Answer(msgspec.Struct, frozen=True):
    """What Heketi answered: its text, where it points to, whether the work it is about goes on."""

    status: int
    text: bytes
    location: str = ""
    is_pending: bool = False
    date: str = ""


def read_key(file: Path) -> bytes:
    """The administrator's key in a file, without the space around it. Raises `contract.Refused`."""
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise contract.Refused(reason=f"the key of Heketi cannot be read from {file}: {error.strerror}") from error
    if not key:
        raise contract.Refused(reason=f"{file} holds no key: write jwt.admin.key of heketi.json into it")
    return key


def token(key: bytes, method: str, path: str, now_s: float) -> str:
    """A JWT of the administrator that is good for this request alone, and for two minutes."""
    claims = {
        "iss": "admin",
        "iat": int(now_s),
        "exp": int(now_s) + TOKEN_S,
        "qsh": hashlib.sha256(f"{method}&{path}".encode()).hexdigest(),
    }
    signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{_base64(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Heketi:
    """The Heketi at `url`, as its administrator. Any number of threads may use one.

    Each call raises `contract.Unreachable`, `EnoughToDo` when its turn comes later, and `contract.Refused` when
    Heketi or its certificate is not accepted; what it raises besides is said with it.
    """

    def __init__(self, url: str, key: bytes, *, ca_file: str | None = None, timeout_s: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        limits = urllib3.Timeout(connect=min(timeout_s, 10.0), read=timeout_s)
        self._pool = urllib3.PoolManager(
            maxsize=16, timeout=limits, retries=False, cert_reqs="CERT_REQUIRED", ca_certs=ca_file
        )

    def close(self) -> None:
        """Let go of connections."""
        self._pool.clear()

    # What there is

    def clusters(self) -> Sequence[str]:
        """The ids of all clusters."""
        return self._get("/clusters", _Clusters).clusters

    def cluster(self, id: str) -> Cluster:
        """One cluster. Raises `contract.Gone`."""
        return self._get(f"/clusters/{id}", Cluster)

    def node(self, id: str) -> Node:
        """One node. Raises `contract.Gone`."""
        return self._get(f"/nodes/{id}", Node)

    def volumes(self) -> Sequence[str]:
        """The ids of all volumes that are made; those that are being made are not among them."""
        return self._get("/volumes", _Volumes).volumes

    def volume(self, id: str) -> Volume:
        """One volume. Raises `contract.Gone`."""
        return self._get(f"/volumes/{id}", Volume)

    def pending(self, kind: str) -> list[Pending]:
        """Work of the kind, such as `expand-volume`, that is not ended, with what it changes."""
        found = self._get("/operations/pending", _PendingOperations).pendingoperations
        seen = []
        for one in found:
            if one.type_name == kind:
                try:
                    seen.append(self._get(f"/operations/pending/{one.id}", Pending))
                except contract.Gone:
                    continue  # it has ended meanwhile
        return seen

    # What it is told to do; each call gives the place in the queue

    def make(self, order: Order) -> str:
        """Begin to make a volume. Raises `NameTaken`, `contract.Full`."""
        return self._begin("POST", "/volumes", order)

    def expand(self, id: str, by_gib: int) -> str:
        """Begin to make a volume larger by so much. Raises `contract.Gone`, `contract.Full`."""
        return self._begin("POST", f"/volumes/{id}/expand", {"expand_size": by_gib})

    def delete(self, id: str) -> str:
        """Begin to take a volume away. Raises `contract.Gone`."""
        return self._begin("DELETE", f"/volumes/{id}", None)

    def clean_up(self, ids: Sequence[str] = ()) -> str:
        """Begin to take away what abandoned work has left: that of these ids, or of all."""
        return self._begin("POST", "/operations/pending/cleanup", {"operations": list(ids)} if ids else {})

    def look(self, place: str) -> str | None:
        """None while what has that place in the queue goes on; then once where its result is, empty for none.

        Raises `Failed` or `FailedForNow` with Heketi's reason, `contract.Full`, `Forgotten` when nobody will ever hear
        the end of it.
        """
        answer = self._send("GET", place, None)
        if answer.status == 404:
            raise Forgotten(reason="Heketi was started anew, or somebody else has heard the answer")
        if answer.status == 500:
            raise _failure(answer, Failed)
        self._check(answer)
        return None if answer.is_pending else answer.location

    # How it is asked

    def _get(self, path: str, kind: type[T]) -> T:
        answer = self._send("GET", path, None)
        self._check(answer)
        try:
            return msgspec.json.decode(answer.text, type=kind)
        except msgspec.MsgspecError as error:
            raise contract.Refused(reason=f"{self.url}{path} is not answered as Heketi does: {error}") from error

    def _begin(self, method: str, path: str, body: object) -> str:
        answer = self._send(method, path, body)
        self._check(answer)
        if answer.status != 202 or not answer.location.startswith("/queue/"):
            raise contract.Refused(reason=f"{self.url}{path} is not answered as Heketi does: {answer.status}")
        return answer.location

    def _send(self, method: str, path: str, body: object) -> Answer:
        headers = {"Authorization": f"bearer {token(self._key, method, path, time.time())}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._pool.request(
                method,
                f"{self.url}{path}",
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            try:
                return _read(response.status, response.headers, self._text(response))
            finally:
                response.release_conn()
        except urllib3.exceptions.SSLError as error:
            reason = f"the certificate of {self.url} is not accepted, heketi_ca_file must prove it: {_short(error)}"
            raise contract.Refused(reason=reason) from error
        except urllib3.exceptions.LocationValueError as error:
            raise contract.Refused(reason=f"heketi_url {self.url!r} is no address: {_short(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise contract.Unreachable(reason=f"Heketi at {self.url}: {_short(error)}") from error

    def _text(self, response: urllib3.BaseHTTPResponse) -> bytes:
        read, deadline_s = b"", time.monotonic() + self._timeout_s
        while part := response.read1(_PART_BYTES):
            read += part
            if len(read) > MOST_BYTES or time.monotonic() > deadline_s:
                response.close()
                raise contract.Unreachable(reason=f"the answer of Heketi at {self.url} has no end")
        return read

    def _check(self, answer: Answer) -> None:
        if answer.status < 400:
            return
        said = _said(answer)
        if answer.status == _ENOUGH_TO_DO:
            raise EnoughToDo(reason=said)
        if answer.status in _PASSING:
            raise contract.Busy(reason=f"Heketi says: {said}")
        if answer.status == 404:
            raise contract.Gone(reason=f"Heketi says: {said}")
        if answer.status in {401, 403} or (answer.status == 400 and "Authorization" in said):
            raise contract.Refused(reason=_login_problem(said, answer.date, time.time()))
        if answer.status >= 500:
            raise _failure(answer, contract.Refused)
        raise contract.Refused(reason=f"Heketi says: {said}")


def _read(status: int, headers: Mapping[str, str], text: bytes) -> Answer:
    return Answer(
        status=status,
        text=text,
        location=headers.get("Location", ""),
        is_pending=status == 200 and headers.get("X-Pending", "").lower() == "true",
        date=headers.get("Date", ""),
    )


def _said(answer: Answer) -> str:
    text = " ".join(answer.text.decode(errors="replace").split())[:_LONGEST_TEXT]
    return text or f"status {answer.status} and nothing else"


def _failure(answer: Answer, other: type[contract.Refused]) -> Exception:
    """Heketi tells its failures apart by their texts alone."""
    said = _said(answer)
    if "already in use" in said and "Volume name" in said:
        return NameTaken(reason=said)
    if any(one in said for one in _NO_NODES):
        return contract.Unreachable(reason=f"Heketi says: {said}: it believes that all nodes are down")
    if gluster.may_pass(said) or _NODE_AWAY.search(said):
        return FailedForNow(reason=f"Heketi says: {said}")
    if any(one in said for one in _NO_ROOM):
        others = "it believes that a node is down, or the volume has as many bricks as it allows"
        return contract.Full(reason=f"Heketi says: {said} (or {others})")
    return other(reason=f"Heketi says: {said}")


def _login_problem(said: str, date: str, now_s: float) -> str:
    """Why Heketi does not let us in, with the mend."""
    if "used before issued" in said or "expired" in said:
        try:
            ahead_s = now_s - email.utils.parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return f"the clocks of Heketi and this host differ, have both keep the time: {said}"
        side = "behind" if ahead_s > 0 else "ahead of"
        return f"the clock of Heketi is {abs(ahead_s):.0f} s {side} this host's, have both keep the time: {said}"
    if "signature" in said or "secret" in said:
        return f"heketi_key_file does not hold jwt.admin.key of heketi.json: {said}"
    return f"Heketi does not let us in: {said}"


def _short(error: BaseException) -> str:
    return " ".join(str(getattr(error, "reason", None) or error).split())[-_LONGEST_TEXT:]
