# SPDX-License-Identifier: Apache-2.0
"""Nodes of GlusterFS on paper: real SSH servers on loopback addresses, whose `gluster` keeps volumes in memory.

Words come as they are sent, through the shell's own quoting. Scripts are run by a real shell, with directories that
stand for the node's /etc/ssl and /run, and programs that stand for some of its own (gluster_programs.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import html
import os
import pathlib
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

import asyncssh

from lab import gluster_programs, heketi_orders, processes

GIB = 1 << 30
TLS_DIRECTORY = "/etc/ssl"
STORED_BYTES = 4093
"""The buffer that glusterd writes an option of a volume to; it dies of what is longer."""


@dataclasses.dataclass
class Volume:
    """A volume, with what its users have written; `is_open` to anybody it stays as it was started.

    `root` is mode, owner and group of its topmost directory, `leaving` the bricks that others take the place of, which
    have no room where it `is_crowded`.
    """

    options: dict[str, str]
    is_started: bool = True
    is_open: bool = False
    limit_bytes: int | None = None
    used_bytes: int = 0
    content: str = ""
    root: tuple[int, int, int] = (0o755, 0, 0)
    bricks: list[str] = dataclasses.field(default_factory=lambda: ["127.0.7.1:/brick"])
    leaving: list[str] = dataclasses.field(default_factory=list)
    is_crowded: bool = False


class Cluster:
    """What the nodes of a cluster know together.

    `says` is what the next commands fail with, `refuses` what all fail with by their verbs. `frozen` is how snapshots
    have volumes, `activated` the names of those that can be mounted.
    """

    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}
        self.snapshots: dict[str, str] = {}
        self.frozen: dict[str, Volume] = {}
        self.activated: set[str] = set()
        self.is_thin = True
        self.says: list[str] = []
        self.refuses: dict[str, str] = {}
        self.commands: list[list[str]] = []

    def create(self, name: str, options: dict[str, str]) -> None:
        self.volumes[name] = Volume(dict(options))

    def expand(self, name: str, bricks: Sequence[str]) -> None:
        """It has more bricks, of these ids, and its topmost directory is healed onto them, as gluster does that."""
        self.volumes[name].root = (0, 0, 0)
        self.volumes[name].bricks += map(_brick, bricks)

    def take_away(self, name: str, bricks: Sequence[str]) -> None:
        """Bricks are unmounted and removed, which those that are in use cannot be."""
        volume = self.volumes[name]
        if volume.is_started and not set(volume.bricks).isdisjoint(map(_brick, bricks)):
            raise heketi_orders.Problem(500, "Unable to execute command on 127.0.7.1: umount: target is busy.")

    def delete(self, name: str) -> None:
        self.volumes.pop(name, None)

    def of(self, name: str) -> list[str]:
        """The snapshots of the volume."""
        return sorted(snapshot for snapshot, volume in self.snapshots.items() if volume == name)

    def run(self, words: list[str]) -> tuple[int, str]:
        """The exit code of `gluster WORDS`, and what it says; of what fails it says in XML that it is well."""
        code, said = self._run(words)
        if code and "--xml" in words:
            told = f"<opRet>-1</opRet>\n  <opErrno>30800</opErrno>\n  <opErrstr>{html.escape(said)}</opErrstr>"
            return 0, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<cliOutput>\n  {told}\n</cliOutput>\n'
        return code, said

    def _run(self, words: list[str]) -> tuple[int, str]:
        self.commands.append(words)
        if words[-2:] == ["pool", "list"]:
            return 0, "UUID Hostname State"
        if self.says:
            return 1, self.says.pop(0)
        kind, verb, *rest = [word for word in words if not word.startswith("--")]
        if verb in self.refuses:
            return 1, self.refuses[verb]
        if kind == "snapshot":
            code, said = self._snapshot(verb, rest)
            return code, f"{said}\nSnapshot command failed" if code else said
        name = rest[0]
        volume = self.volumes.get(name)
        if volume is None:
            return 1, f"Volume {name} does not exist"
        return getattr(self, f"_{verb.replace('-', '_')}")(name, volume, rest[1:])

    def _snapshot(self, verb: str, rest: list[str]) -> tuple[int, str]:
        if verb == "list":
            if rest[0] not in self.volumes:
                return 1, f"Snapshot list : failed: Volume ({rest[0]}) does not exist"
            return 0, "\n".join(self.of(rest[0])) or "No snapshots present"
        if verb == "delete":
            if self.snapshots.pop(rest[0], None) is None:
                return 1, f"snapshot delete: failed: Snapshot ({rest[0]}) does not exist"
            self.activated.discard(rest[0])
            return 0, f"snapshot delete: {rest[0]}: snap removed successfully"
        if verb in {"activate", "deactivate"}:
            return self._activate(verb, rest[0])
        return self._take(*rest[:2])

    def _activate(self, verb: str, name: str) -> tuple[int, str]:
        if name not in self.snapshots:
            return 1, f"Snapshot {verb}: failed: Snapshot ({name}) does not exist."
        if (name in self.activated) == (verb == "activate"):
            return 1, f"Snapshot {verb}: failed: Snapshot {name} is already {verb}d."
        self.activated ^= {name}
        return 0, f"Snapshot {verb}: {name}: Snap {verb}d successfully"

    def _take(self, name: str, of: str) -> tuple[int, str]:
        volume, problem = self.volumes.get(of), ""
        if volume is None:
            problem = f"Volume ({of}) does not exist"
        elif name in self.snapshots:
            problem = f"Snapshot {name} already exists"
        elif not volume.is_started:
            problem = f"volume {of} is not in started state"
        elif not self.is_thin:
            problem = (
                "Pre Validation failed on 127.0.7.2. Snapshot is supported only for thin provisioned LV. "
                f"Ensure that all bricks of {of} are thinly provisioned LV."
            )
        if problem:
            return 1, f"snapshot create: failed: {problem}"
        self.snapshots[name] = of
        self.frozen[name] = dataclasses.replace(self.volumes[of], options=dict(self.volumes[of].options))
        return 0, f"snapshot create: success: Snap {name} created successfully"

    def _info(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        state = "Started" if volume.is_started else "Stopped"
        count = f"Snapshot Count: {len(self.of(name))}"
        facts = f"\nVolume Name: {name}\nType: Replicate\nStatus: {state}\n{count}\nBricks:\n"
        facts += "".join(f"Brick{number}: {brick}\n" for number, brick in enumerate(volume.bricks, 1))
        options = "".join(f"{key}: {value}\n" for key, value in volume.options.items())
        return 0, f"{facts}Options Reconfigured:\n{options}"

    def _remove_brick(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        *bricks, what = rest
        if not set(bricks) <= set(volume.bricks):
            return 1, f"volume remove-brick {what}: failed: Incorrect brick {bricks[0]} for volume {name}"
        if what == "start":
            volume.leaving = bricks
        elif volume.leaving != bricks:
            return 1, "volume remove-brick: failed: remove-brick not started."
        elif what == "commit" and volume.is_crowded:
            said = "use 'force' option as migration of some files might have been skipped or has failed"
            return 1, f"volume remove-brick commit: failed: {said}"
        elif what == "commit":
            volume.bricks = [one for one in volume.bricks if one not in bricks]
            volume.leaving = []
        return 0, "localhost 0 0Bytes 0 0 0 completed 0:00:00" if what == "status" else "success"

    def _set(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        options = dict(zip(rest[::2], rest[1::2], strict=True))
        if any(len(f"{option}={value}") + 2 > STORED_BYTES for option, value in options.items()):
            raise AssertionError("the real glusterd dies of that, on every node")
        volume.options |= options
        return 0, "volume set: success"

    def _start(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        if not volume.is_started:
            volume.is_open = {volume.options.get(f"{side}.ssl") for side in ("client", "server")} != {"on"}
        volume.is_started = True
        return 0, f"volume start: {name}: success"

    def _stop(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        volume.is_started = False
        return 0, f"volume stop: {name}: success"

    def _quota(self, name: str, volume: Volume, rest: list[str]) -> tuple[int, str]:
        is_on = volume.options.get("features.quota") == "on"
        if not volume.is_started:
            return 1, f"quota command failed : Volume {name} is not started. Start it first"
        if rest[0] == "enable":
            if is_on:
                return 1, "quota command failed : Quota is already enabled"
            volume.options["features.quota"] = "on"
        elif not is_on:
            return 1, "quota command failed : Quota is disabled, please enable quota"
        elif rest[0] == "limit-usage":
            volume.limit_bytes = int(rest[2].removesuffix("GB")) * GIB
        elif rest[0] == "list":
            return 0, _quota_list(volume)
        else:
            return 1, f"unrecognized word: {rest[0]}"
        return 0, "volume quota : success"


def _brick(id: str) -> str:
    """Where the brick of an id of Heketi's is."""
    return f"127.0.7.1:/var/lib/heketi/mounts/vg_1/brick_{id}/brick"


def _quota_list(volume: Volume) -> str:
    limit = ""
    if volume.limit_bytes is not None:
        limit = (
            f"<limit><path>/</path><hard_limit>{volume.limit_bytes}</hard_limit><soft_limit_percent>80%"
            f"</soft_limit_percent><used_space>{volume.used_bytes}</used_space></limit>"
        )
    return f"<?xml version='1.0'?><cliOutput><opRet>0</opRet><volQuota>{limit}</volQuota></cliOutput>"


class Nodes:
    """SSH servers for nodes at 127.0.7.1 and further, all on one port, and how one logs in to them.

    Those that are `anew` know of no volume, and glusterd hangs on those that are `hanging`. `scripts` are all that were
    run, each with its node, `spoken` so the commands of gluster. `on_command` is called before each command has its
    effect, and after it.
    """

    def __init__(self, cluster: Cluster, directory: pathlib.Path, count: int = 3) -> None:
        self.cluster = cluster
        self.directory = directory
        self.hosts = [f"127.0.7.{number}" for number in range(1, count + 1)]
        self.key_file, self.known_hosts = directory / "key", directory / "known_hosts"
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listening: dict[str, Any] = {}
        self._connections: dict[str, set[Any]] = {}
        self.anew: set[str] = set()
        self.hanging: set[str] = set()
        self.programs = gluster_programs.Programs(cluster, directory)
        self.programs.gluster = self._gluster
        self.scripts: list[tuple[str, list[str]]] = []
        self.spoken: list[tuple[str, list[str]]] = []
        self.on_command: Callable[[], None] = lambda: None

    def start(self) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self.key_file)
        self.key_file.chmod(0o600)
        key.write_public_key(self.directory / "authorized_keys")
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.port = processes.free_port()
        self.programs.start()
        self._thread.start()
        for host in self.hosts:
            self._begin(host)

    def add(self, host: str) -> None:
        """One more, which `ssh_known_hosts` has as well."""
        self.hosts.append(host)
        self._begin(host)

    def _begin(self, host: str) -> None:
        key = self._host_key.export_public_key().decode().strip()
        with self.known_hosts.open("a") as file:
            file.write(f"[{host}]:{self.port} {key}\n")
        self.ssl(host).mkdir(parents=True, exist_ok=True)
        self.run_directory(host).mkdir()
        self.revive(host)

    def ssl(self, host: str) -> pathlib.Path:
        """What stands for /etc/ssl on the node."""
        return self.directory / host / "ssl"

    def run_directory(self, host: str) -> pathlib.Path:
        """What stands for /run on the node."""
        return self.directory / host / "run"

    def copies(self) -> list[str]:
        """What there is on nodes of copies: directories, mounts, snapshots that can be mounted."""
        found = [str(path) for host in self.hosts for path in self.run_directory(host).iterdir()]
        return [*found, *map(str, self.programs.mounts), *self.cluster.activated]

    def is_up(self, host: str) -> bool:
        return host in self._listening

    def revive(self, host: str) -> None:
        self._listening[host] = self._do(self._listen(host))

    async def _listen(self, host: str) -> Any:
        return await asyncssh.listen(
            host,
            self.port,
            server_host_keys=[self._host_key],
            authorized_client_keys=str(self.directory / "authorized_keys"),
            process_factory=lambda process: self._serve(host, process),
        )

    def kill(self, host: str) -> None:
        """The node is away: nobody listens, and connections are cut."""
        self._do(self._close(host))

    def stop(self) -> None:
        for host in list(self._listening):
            self.kill(host)
        self.programs.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self, host: str) -> None:
        listening = self._listening.pop(host)
        listening.close()
        await listening.wait_closed()
        for connection in self._connections.pop(host, ()):
            connection.abort()
            await connection.wait_closed()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _serve(self, host: str, process: Any) -> None:
        self._connections.setdefault(host, set()).add(process.channel.get_connection())
        words = shlex.split(process.command)
        words = words[words.index("KILL") + 2 :]
        self.on_command()
        if words[0] == "gluster":
            code, said = self._gluster(host, words[1:])
            process.stdout.write(said)
        else:
            self.scripts.append((host, words))
            done = await asyncio.to_thread(self.run, host, words)
            code = done.returncode
            process.stdout.write(done.stdout)
            process.stderr.write(done.stderr)
        self.on_command()
        process.exit(code)

    def _gluster(self, host: str, words: list[str]) -> tuple[int, str]:
        self.spoken.append((host, words))
        if host in self.hanging:
            return 1, "Error : Request timed out"
        return (Cluster() if host in self.anew else self.cluster).run(words)

    def run(self, host: str, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command on the node."""
        here = [self._place(host, word) for word in words]
        own = {"PATH": f"{self.programs.bin}:{self.programs.path}", gluster_programs.NODE: host}
        return subprocess.run(here, capture_output=True, text=True, check=False, env=os.environ | own)

    def _place(self, host: str, word: str) -> str:
        if word.startswith("/run/"):
            return f"{self.run_directory(host)}/{word.removeprefix('/run/')}"
        return str(self.ssl(host)) if word == TLS_DIRECTORY else word
