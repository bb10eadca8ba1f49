# SPDX-License-Identifier: Apache-2.0
"""A double of Heketi 9: the REST interface, its texts and its read-once queue, over volumes on paper.

What it answers is compared with what a real one was recorded to answer, by tests/drivers/test_heketi.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.server
import json
import math
import re
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jwt

from lab import gluster_nodes, heketi_orders
from lab.heketi_orders import Problem

KEY = "the administrator's key of this Heketi"
MOST_IN_FLIGHT = 8
_LEEWAY_S = 120
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_LEAST_KIB = 1 << 20


@dataclasses.dataclass
class Work:
    """What is begun: how it ends, and whether it has; `bricks` are the ids of those that it adds to a volume."""

    id: str
    kind: str
    about: str
    end: Callable[[], str]
    status: str = ""
    place: str = ""
    is_ended: bool = False
    answer: tuple[int, str] = (204, "")
    bricks: Sequence[str] = ()


def fresh() -> str:
    return uuid.uuid4().hex


def signed(method: str, path: str, key: str = KEY, **claims: Any) -> str:
    """A token for a request; a claim that is None is left out."""
    now_s = int(time.time())
    usual = {"iss": "admin", "iat": now_s, "exp": now_s + 60}
    usual["qsh"] = hashlib.sha256(f"{method}&{path}".encode()).hexdigest()
    return jwt.encode({k: v for k, v in (usual | claims).items() if v is not None}, key, algorithm="HS256")


def let_in(header: str, method: str, path: str, now_s: float) -> None:
    """Raises `Problem` unless the token is one of the administrator for this request."""
    if not header:
        raise Problem(401, "Required authorization token not found")
    words = header.split()
    if len(words) != 2 or words[0].lower() != "bearer":
        raise Problem(400, "Authorization header format must be Bearer {token}")
    try:
        claims = jwt.decode(
            words[1],
            KEY,
            algorithms=["HS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_iss": False},
        )
    except jwt.InvalidSignatureError:
        text = "Invalid JWT token: signature is invalid (client and server secrets may not match)"
        raise Problem(401, text) from None
    except jwt.InvalidTokenError:
        text = "Invalid JWT token: token contains an invalid number of segments"
        raise Problem(401, text) from None
    if "iss" not in claims:
        raise Problem(401, "Invalid JWT token: Token missing iss claim")
    if claims["iss"] not in {"admin", "user"}:
        raise Problem(401, "Invalid JWT token: Unknown user")
    late_s = int(now_s) - claims.get("exp", 0)
    if late_s > 0:
        raise Problem(401, f"Invalid JWT token: Token is expired by {late_s}s")
    if claims.get("iat", 0) > now_s + _LEEWAY_S:
        raise Problem(401, "Invalid JWT token: Token used before issued (client and server clocks may differ)")
    if claims.get("qsh") != hashlib.sha256(f"{method}&{path}".encode()).hexdigest():
        raise Problem(401, "Invalid qsh claim in token")
    if claims["iss"] == "user" and path != "/volumes":
        raise Problem(401, "Administrator access required")


class Inventory:
    """Clusters, nodes with devices, and volumes; `hidden` are those that are being made, or deleted."""

    def __init__(self, gluster: gluster_nodes.Cluster | None, device_gib: int) -> None:
        self.gluster = gluster or gluster_nodes.Cluster()
        self.device_kib = device_gib << 20
        self.clusters: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.hidden: dict[str, dict[str, Any]] = {}

    def _known(self, id: str) -> dict[str, Any]:
        volume = self.volumes.get(id)
        if volume is None:
            raise Problem(404, "Id not found")
        if volume.get("mount"):  # of the hosts that were there when it was made
            return volume
        hosts = [self.nodes[node]["hostnames"]["storage"][0] for node in self.clusters[volume["cluster"]]["nodes"]]
        options = {"backup-volfile-servers": ",".join(hosts[1:])}
        device = f"{hosts[0]}:{volume['name']}" if hosts else ""
        volume["mount"] = {"glusterfs": {"hosts": hosts, "device": device, "options": options}}
        return volume

    def _devices(self, cluster: str) -> Iterator[dict[str, Any]]:
        for node in self.clusters[cluster]["nodes"]:
            if self.nodes[node]["state"] == "online":
                yield from (device | {"node": node} for device in self.nodes[node]["devices"])

    def _place(self, volume: dict[str, Any], size_gib: int, copies: tuple[int, float]) -> bool:
        """Put bricks on devices of as many nodes as it takes; whether there was room."""
        count, share = copies
        brick_kib = math.ceil((size_gib << 20) * share)
        pool_kib = heketi_orders.pool_kib(brick_kib, volume["snapshot"]["factor"])
        roomy = [one for one in self._devices(volume["cluster"]) if one["storage"]["free"] >= pool_kib]
        roomy.sort(key=lambda one: -one["storage"]["free"])
        if len({one["node"] for one in roomy}) < count:
            return False
        used: set[str] = set()
        for device in roomy:
            if len(used) < count and device["node"] not in used:
                used.add(device["node"])
                brick = {"id": fresh(), "path": "/brick", "device": device["id"], "node": device["node"]}
                brick |= {"volume": volume["id"], "size": brick_kib}
                device["bricks"].append(brick)
                volume["bricks"].append(brick)
                device["storage"]["free"] -= pool_kib
                device["storage"]["used"] += pool_kib
        return True

    def _free(self, volume: dict[str, Any], bricks: Sequence[str] | None = None) -> None:
        """Take bricks of a volume away from devices: all, unless some are named."""
        wanted = [one["id"] for one in volume["bricks"]] if bricks is None else bricks
        volume["bricks"] = [one for one in volume["bricks"] if one["id"] not in wanted]
        for device in list(self._devices(volume["cluster"])):
            gone = [brick for brick in device["bricks"] if brick["id"] in wanted]
            for brick in gone:
                device["bricks"].remove(brick)
                pool_kib = heketi_orders.pool_kib(brick["size"], volume["snapshot"]["factor"])
                device["storage"]["free"] += pool_kib
                device["storage"]["used"] -= pool_kib


class Queue(Inventory):
    """Work that is begun and ends, whose end is told once. `is_held` keeps it from ending.

    It `cleans_in_vain` where it cannot log in to the node of a brick; it does not say so.
    """

    def __init__(self, gluster: gluster_nodes.Cluster | None, device_gib: int) -> None:
        super().__init__(gluster, device_gib)
        self.queue: dict[str, Work] = {}
        self.works: dict[str, Work] = {}
        self.is_held = self.is_busy = self.cleans_in_vain = False
        self.fails: dict[str, str] = {}
        self.lock = threading.RLock()

    def restart(self) -> None:
        """Killed and started anew: the queue is empty, and what was under way is abandoned."""
        with self.lock:
            self.queue.clear()
            for work in self.works.values():
                work.status = "stale"

    def release(self) -> None:
        """What was held ends now."""
        with self.lock:
            self.is_held = False
            for work in [one for one in self.works.values() if not one.status]:
                self._end(work)

    def _queued(
        self, kind: str, about: str, end: Callable[[], str], bricks: Sequence[str] = ()
    ) -> tuple[int, Any, dict[str, str]]:
        if self.is_busy or sum(not one.is_ended for one in self.works.values()) >= MOST_IN_FLIGHT:
            raise Problem(429, "Server busy. Retry operation later.")
        work = Work(fresh(), kind, about, end, place=fresh(), bricks=bricks)
        self.works[work.id] = self.queue[work.place] = work
        if not self.is_held:
            self._end(work)
        return 202, "", {"Location": f"/queue/{work.place}"}

    def _end(self, work: Work) -> None:
        try:
            if work.kind in self.fails:
                raise Problem(500, self.fails[work.kind])
            result = work.end()
            work.answer = (303, result) if result else (204, "")
            self.works.pop(work.id, None)
        except Problem as problem:
            work.answer, work.status = (500, problem.text), "failed"
        work.is_ended = True

    def _poll(self, place: str) -> tuple[int, Any, dict[str, str]]:
        work = self.queue.get(place)
        if work is None:
            raise Problem(404, "Id not found")
        if not work.is_ended:
            return 200, "", {"X-Pending": "true"}
        del self.queue[place]
        status, said = work.answer
        if status == 303:
            return 303, f'<a href="{said}">See Other</a>.\n\n', {"Location": said}
        if status == 500:
            raise Problem(500, said)
        return status, "", {}

    def _operations(self, of: str, part: str) -> dict[str, Any]:
        shown = [
            {"id": one.id, "type_name": one.kind, "status": one.status, "sub_status": "" if one.status else "in-flight"}
            for one in self.works.values()
        ]
        if part != "pending":
            stale = sum(one["status"] == "stale" for one in shown)
            failed = sum(one["status"] == "failed" for one in shown)
            new = len(shown) - stale - failed
            return {"total": len(shown), "in_flight": new, "stale": stale, "failed": failed, "new": new}
        if not of:
            return {"pendingoperations": shown}
        work = self.works.get(of)
        if work is None:
            raise Problem(404, f"Id not found: {of}")
        changes = [{"id": brick, "description": "Add brick"} for brick in work.bricks]
        changes.append({"id": work.about, "description": work.kind.replace("-", " ").capitalize()})
        return next(one for one in shown if one["id"] == of) | {"changes": changes}

    def _clean_up(self, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        def end() -> str:
            chosen = [] if self.cleans_in_vain else given.get("operations") or list(self.works)
            for work in [one for one in self.works.values() if one.id in chosen and one.status]:
                if work.about in self.hidden:
                    volume = self.hidden.pop(work.about)
                    self.gluster.delete(volume["name"])
                    self._free(volume)
                elif work.bricks:
                    volume = self.volumes[work.about]
                    self.gluster.take_away(volume["name"], work.bricks)
                    self._free(volume, work.bricks)
                del self.works[work.id]
            return ""

        return self._queued("clean-up", "", end)


class Heketi(Queue):
    """One Heketi with its clusters; its clock is `clock_s` ahead, and `requests` is what it was asked.

    `on_request` is called before each request has its effect, and after it.
    """

    def __init__(self, gluster: gluster_nodes.Cluster | None = None, device_gib: int = 500) -> None:
        super().__init__(gluster, device_gib)
        self.clock_s = 0.0
        self.requests: list[str] = []
        self.on_request: Callable[[], None] = lambda: None
        self._server: http.server.ThreadingHTTPServer | None = None

    def start(self, context: ssl.SSLContext | None = None) -> str:
        """Listen; where that is."""
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or each answer waits for 40 ms: headers and text are sent one by one

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

            def do_GET(self) -> None:
                double.answer(self)

            def do_POST(self) -> None:
                double.answer(self)

            def do_DELETE(self) -> None:
                double.answer(self)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string((timestamp or time.time()) + double.clock_s)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http{'s' if context else ''}://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def stock(self, hosts: Sequence[str]) -> str:
        """A cluster of nodes with one device each, as `heketi-cli topology load` makes it; its id."""
        with self.lock:
            _, cluster, _ = self._cluster({})
            for host in hosts:
                names = {"manage": [host], "storage": [host]}
                self._node({"zone": 1, "cluster": cluster["id"], "hostnames": names})
            for node in cluster["nodes"]:
                self._device({"node": node, "name": "/dev/sdb"})
            self.queue.clear()
        return str(cluster["id"])

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        path = request.path.partition("?")[0]
        self.on_request()
        with self.lock:
            self.requests.append(f"{request.command} {path}")
            try:
                if path != "/hello":
                    let_in(request.headers.get("Authorization", ""), request.command, path, time.time() + self.clock_s)
                status, said, headers = self._act(request.command, path, body)
            except Problem as problem:
                status, said, headers = problem.status, f"{problem.text}\n", {}
        self.on_request()
        text = said if isinstance(said, str) else json.dumps(said) + "\n"
        with contextlib.suppress(OSError):
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(text.encode())))
            request.end_headers()
            request.wfile.write(text.encode())

    def _act(self, method: str, path: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        kind, _, rest = path.strip("/").partition("/")
        id, _, verb = rest.partition("/")
        if id and kind in {"volumes", "nodes", "clusters", "queue"} and not re.fullmatch("[A-Fa-f0-9]+", id):
            raise Problem(404, "Invalid path or request")
        if method == "GET":
            return self._look(kind, id, verb)
        if method == "DELETE" and kind == "volumes":
            return self._begin_deletion(id)
        if method != "POST":
            raise Problem(405, "")
        try:
            given = json.loads(body or b"x")
        except ValueError:
            raise Problem(422, "request unable to be parsed") from None
        acts: dict[str, Callable[[], tuple[int, Any, dict[str, str]]]] = {
            "clusters": lambda: self._cluster(given),
            "nodes": lambda: self._node(given),
            "devices": lambda: self._device(given),
            "operations": lambda: self._clean_up(given),
            "volumes": lambda: self._expand(id, given) if verb == "expand" else self._make(given),
        }
        return acts[kind]()

    def _look(self, kind: str, id: str, verb: str) -> tuple[int, Any, dict[str, str]]:
        found: Any
        if kind == "queue":
            return self._poll(id)
        if kind == "hello":
            return 200, "Hello from Heketi", {}
        if kind == "operations":
            found = self._operations(verb or id if verb else "", id)
        elif not id:
            found = {kind: sorted(getattr(self, kind))}
        else:
            found = self._known(id) if kind == "volumes" else getattr(self, kind).get(id)
            if found is None:
                raise Problem(404, "Id not found")
            if kind == "clusters":
                found = found | {"volumes": sorted(one["id"] for one in self.volumes.values() if one["cluster"] == id)}
        return 200, found, {"Content-Type": "application/json; charset=UTF-8"}

    def _cluster(self, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        made = {"id": fresh(), "nodes": [], "volumes": [], "block": False, "file": True, "blockvolumes": []}
        self.clusters[made["id"]] = made
        return 201, made, {"Location": f"/clusters/{made['id']}"}

    def _node(self, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        made = {k: given[k] for k in ("zone", "hostnames", "cluster")}
        made |= {"id": fresh(), "state": "online", "devices": []}

        def end() -> str:
            self.nodes[made["id"]] = made
            self.clusters[given["cluster"]]["nodes"].append(made["id"])
            return f"/nodes/{made['id']}"

        return self._queued("add-node", made["id"], end)

    def _device(self, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        room = {"total": self.device_kib, "free": self.device_kib, "used": 0}
        made = {"name": given["name"], "storage": room, "id": fresh(), "state": "online", "bricks": []}

        def end() -> str:
            self.nodes[given["node"]]["devices"].append(made)
            return ""

        return self._queued("add-device", made["id"], end)

    def _make(self, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if not isinstance(given, dict) or not isinstance(given.get("size", 0), int):
            raise Problem(422, "request unable to be parsed")
        size_gib, name = given.get("size", 0), given.get("name", "")
        heketi_orders.refuse_size("size", size_gib)
        if name and not _NAME.fullmatch(name):
            raise Problem(400, "validation failed: name: must be in a valid format.")
        durability = {"type": "none", "replicate": {}, "disperse": {}} | given.get("durability", {})
        copies = heketi_orders.copies(durability, size_gib)
        if not self.clusters:
            raise Problem(400, "No clusters configured")
        wanted = given.get("clusters") or sorted(self.clusters)
        for one in wanted:
            if one not in self.clusters:
                raise Problem(400, f"Cluster id {one} not found")
        taken = {one["name"] for one in (*self.volumes.values(), *self.hidden.values())}
        if name and name in taken:
            raise Problem(500, f"Failed to allocate new volume: Volume name '{name}' already in use")
        volume = {
            "size": size_gib,
            "name": name,
            "durability": durability,
            "glustervolumeoptions": ["", *given.get("glustervolumeoptions", []), ""],
            "snapshot": heketi_orders.snapshot_room(given.get("snapshot", {})),
            "id": fresh(),
            "cluster": wanted[0],
            "blockinfo": {},
            "bricks": [],
        }
        volume["name"] = name or f"vol_{volume['id']}"
        if not any(self._devices(wanted[0])):
            missing = "online storage devices" if self.clusters[wanted[0]]["nodes"] else "nodes"
            raise Problem(500, f"Failed to allocate new volume: No {missing} in cluster")
        if not self._place(volume, size_gib, copies):
            raise Problem(500, "Failed to allocate new volume: No space")

        def end() -> str:
            words = " ".join(given.get("glustervolumeoptions", [])).split()
            self.gluster.create(volume["name"], dict(zip(words[::2], words[1::2], strict=True)))
            self.volumes[volume["id"]] = self.hidden.pop(volume["id"])
            return f"/volumes/{volume['id']}"

        self.hidden[volume["id"]] = volume
        try:
            return self._queued("create-volume", volume["id"], end)
        except Problem:
            self._free(self.hidden.pop(volume["id"]))
            raise

    def _expand(self, id: str, given: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        by_gib = given.get("expand_size", 0)
        heketi_orders.refuse_size("expand_size", by_gib)
        volume = self._known(id)
        had = len(volume["bricks"])
        if not self._place(volume, by_gib, heketi_orders.copies(volume["durability"], volume["size"], by_gib)):
            raise Problem(500, "Failed to allocate volume expansion: Maximum number of bricks reached.")
        bricks = [one["id"] for one in volume["bricks"][had:]]

        def end() -> str:
            volume["size"] += by_gib
            self.gluster.expand(volume["name"], bricks)
            return f"/volumes/{id}"

        return self._queued("expand-volume", id, end, bricks)

    def _begin_deletion(self, id: str) -> tuple[int, Any, dict[str, str]]:
        self.hidden[id] = self._known(id)
        if any(work.bricks and work.about == id for work in self.works.values()):
            del self.hidden[id]
            text = "The target exists, contains other items, or is in use."
            raise Problem(500, f"Failed to set up volume delete: {text}")
        del self.volumes[id]
        try:
            return self._queued("delete-volume", id, lambda: self._delete(id))
        except Problem:
            self.volumes[id] = self.hidden.pop(id)
            raise

    def _delete(self, id: str) -> str:
        volume = self.hidden.pop(id)
        name = volume["name"]
        if count := len(self.gluster.of(name)):
            self.gluster.run(["volume", "stop", name, "force"])
            self.volumes[id] = volume
            text = f"Cannot delete Volume {name} ,as it has {count} snapshots."
            raise Problem(500, f"Unable to delete volume {name}: volume delete: {name}: failed: {text}")
        self.gluster.delete(name)
        self._free(volume)
        return ""
