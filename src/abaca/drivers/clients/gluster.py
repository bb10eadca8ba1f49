# SPDX-License-Identifier: Apache-2.0
"""GlusterFS, told what to do by its own command on any node of a cluster. Nothing is decided here."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from abaca.drivers import contract
from abaca.drivers.clients.machines import Machines
from abaca.nodes.shell import KILLED, Answer

GIB = 1 << 30
ANSWERS_WITHIN_S = 10
"""Within that glusterd answers what it need ask nobody about; one that is busy takes a second or two."""
_SAID = 300
_LIMIT = re.compile(
    r"<limit>\s*<path>/</path>\s*<hard_limit>(\d+)</hard_limit>(?:(?!</limit>).)*?<used_space>(\d+)</used_space>",
    re.DOTALL,
)
# What `gluster --xml` says, and is well by its exit code.
_NO_SUCCESS = re.compile(r"<opRet>-\d+</opRet>")
_WHY = re.compile(r"<opErrstr>(.*?)</opErrstr>", re.DOTALL)
_BRICK = re.compile(r"Brick\d+")
# What gluster says when somebody else is at the volume, or at the cluster.
_BUSY = (
    *("Another transaction", "Locking failed", "transaction is in progress", "Please try again", "lock is held"),
    "Request timed out",  # and goes on: what is told to gluster can be told again
    *("bricks are not running", "bricks may be down", "rebalance process is running"),  # no snapshot now
)
# The exit codes of a shell that has not found a program, or may not run what it has found.
_NO_PROGRAM = (126, 127)
_NOT_LEAVING = "remove-brick not started"
# A node mounts the volume for what it is asked, by its certificate.
_NOT_INSIDE = "aux mount"
# Set the options after $4 where the line $2 is told of the volume $1, and neither $3 nor $4 is; say what was told.
_SET_WHERE = """told=$(gluster --mode=script volume info "$1") || { code=$?; printf %s "$told"; exit "$code"; }
end='
'
is_told() { case "$end$told$end" in *"$end$1$end"*) ;; *) false ;; esac; }
if is_told "$2" && ! is_told "$3" && ! is_told "$4"; then
    volume=$1
    shift 4
    gluster --mode=script volume set "$volume" "$@" || exit
fi
printf '%s\\n' "$told"  # echo reads backslashes
"""
_AWAY = (
    *("Connection failed", "glusterd", "Staging failed", "not connected", "is not in 'Peer in Cluster'"),
    "peers are down",
)


class Info(msgspec.Struct, frozen=True):
    """A volume as gluster knows it: whether it is started, the options that somebody set, how many snapshots it has.

    Its bricks are `host:/path` each, in the order in which those of one set stand together.
    """

    name: str
    is_started: bool
    options: Mapping[str, str]
    snapshot_count: int = 0
    bricks: Sequence[str] = ()


class Quota(msgspec.Struct, frozen=True):
    """The limit on a whole volume and what is used of it, in bytes."""

    limit_bytes: int
    used_bytes: int


Option = tuple[str, str]
"""An option's name and its value."""


class Gluster:
    """The nodes `hosts` of one cluster: the first that answers is asked.

    Each call raises `contract.Gone` without the volume, which all nodes that answer must say: one that was made anew
    knows of none. It raises `contract.Busy`, `contract.Unreachable` when no node answers, and `contract.Refused` with
    gluster's words. `explain` says why nodes may not get into volumes, empty when that is not known.
    """

    def __init__(self, machines: Machines, hosts: Sequence[str], explain: Callable[[], str] = str) -> None:
        self._machines = machines
        self._hosts = hosts
        self._explain = explain

    def info(self, volume: str) -> Info:
        """What gluster knows of the volume."""
        return read_info(volume, self._run("volume", "info", volume))

    def set(self, volume: str, *options: str) -> None:
        """Set options, name and value of each, in one command; clients see them at once."""
        self._run("volume", "set", volume, *options)

    def set_where(self, volume: str, has: Option, lacks: tuple[Option, Option], option: Option) -> Info:
        """Set an option of the volume where it has one and lacks the others; what gluster knew of the volume before.

        It is one command by SSH, each of which takes some milliseconds.
        """
        lines = (f"{name}: {value}" for name, value in (has, *lacks))
        told = self._told(["sh", "-c", _SET_WHERE, "sh", volume, *lines, *option])
        return read_info(volume, told)

    def start(self, volume: str) -> None:
        """Start the bricks that do not run."""
        self._run("volume", "start", volume, "force")

    def stop(self, volume: str) -> None:
        """Stop all bricks; clients hang or fail until they are started."""
        self._run("volume", "stop", volume, "force", fine=("not in the started state", "is not started"))

    def take_out(self, volume: str, bricks: Sequence[str]) -> bool:
        """Have these bricks, whole sets, leave the volume; whether they have.

        What was written to them goes to the others before, and is reached all the while. Raises `contract.Busy` when
        not all of it could, and it was begun anew.
        """
        words = ("volume", "remove-brick", volume, *bricks)
        said = self._run(*words, "status", fine=(_NOT_LEAVING,))
        if "in progress" in said:
            return False
        is_leaving = said.strip() != "" and _NOT_LEAVING not in said
        problem = None
        if is_leaving and "completed" in said and "failed" not in said:
            try:
                self._run(*words, "commit")
            except contract.Refused as error:  # files were passed over, for want of room on the others above all
                problem = contract.Busy(reason=f"{error.message}; do the other bricks have room?")
            else:
                return True
        if is_leaving:  # some node has failed, or some file: once more
            self._run(*words, "stop")
        self._run(*words, "start")
        if problem:
            raise problem
        return False

    def enable_quota(self, volume: str) -> None:
        """Count what is used; some seconds later, unless the options `features.*-timeout` say how many."""
        self._run("volume", "quota", volume, "enable", fine=("already enabled",))

    def limit(self, volume: str, size_gib: int) -> None:
        """Let the whole volume hold so much."""
        self._run("volume", "quota", volume, "limit-usage", "/", f"{size_gib}GB")

    def quota(self, volume: str) -> Quota | None:
        """The limit on the whole volume; None without one."""
        text = self._run("--xml", "volume", "quota", volume, "list", "/", fine=("No quota", "not enabled", "disabled"))
        return read_quota(text)

    def snapshots(self, volume: str) -> list[str]:
        """The names of the volume's snapshots."""
        lines = self._run("snapshot", "list", volume, fine=("No snapshots",)).splitlines()
        return [line.strip() for line in lines if line.strip() and "No snapshots" not in line]

    def take_snapshot(self, name: str, volume: str) -> None:
        """Take a snapshot of the volume, which is one moment on all its bricks. A taken name is `contract.Refused`.

        One that is there already of this volume is this one: what breaks in the middle is told again.
        """
        try:
            self._run("snapshot", "create", name, volume, "no-timestamp")
        except contract.Refused as error:
            if "already exists" not in error.message or name not in self.snapshots(volume):
                raise

    def activate(self, name: str) -> None:
        """Have the snapshot's bricks run, so that it can be mounted. Raises `contract.Gone` without it."""
        self._run("snapshot", "activate", name, fine=("already activated",))

    def deactivate(self, name: str) -> None:
        """Have none of the snapshot's bricks run. Raises `contract.Gone` without it."""
        self._run("snapshot", "deactivate", name, fine=("already deactivated",))

    def drop_snapshot(self, name: str) -> None:
        """Take the snapshot away. Raises `contract.Gone` without it."""
        self._run("snapshot", "delete", name)

    def _run(self, *words: str, fine: Sequence[str] = ()) -> str:
        return self._told(["gluster", "--mode=script", *words], fine)

    def _told(self, words: Sequence[str], fine: Sequence[str] = ()) -> str:
        away: contract.Unreachable | None = None
        gone: contract.Gone | None = None
        for host in self._hosts:
            try:
                answer = self._machines.run(host, words)
            except contract.Unreachable as error:
                away = error
                continue
            if _NO_SUCCESS.search(answer.out):  # whatever the exit code says
                answer = Answer(answer.code or 1, "", _told_in(answer.out))
            if answer.code == 0 or any(one in answer.out + answer.err for one in fine):
                return answer.out
            problem = failure(answer)
            if _NOT_INSIDE in problem.message and (why := self._explain()):
                problem = contract.Refused(reason=f"{why} (gluster says: {_said(answer)})")
            if isinstance(problem, contract.Gone):
                gone = problem
            elif isinstance(problem, contract.Unreachable):
                away = problem
            else:
                raise problem
        raise gone or away or contract.Unreachable(reason="the cluster has no node that is online")


def silence(machines: Machines, host: str) -> str:
    """Why the glusterd of a machine does not answer; empty when it does. Raises as `Machines.run` does.

    One that hangs holds up whatever the cluster is told; clients go on.
    """
    words = ["gluster", "--mode=script", f"--timeout={ANSWERS_WITHIN_S}", "pool", "list"]
    answer = machines.run(host, words)
    if answer.code == 0:
        return ""
    if answer.code in _NO_PROGRAM:
        return "it has no gluster: install glusterfs-server there"
    return f"its glusterd does not answer, start it anew there (gluster says: {_said(answer)})"


def failure(answer: Answer) -> contract.Gone | contract.Busy | contract.Unreachable | contract.Refused:
    """What a command that failed has said, as the error that it is."""
    said = _said(answer)
    reason = f"gluster says: {said or f'nothing, and ended with {answer.code}'}"
    if answer.code == KILLED:
        return contract.Busy(reason=f"{reason}: it was killed, since it took too long")
    if "does not exist" in said and "option" not in said.lower():
        return contract.Gone(reason=reason)
    if any(one in said for one in _BUSY):
        return contract.Busy(reason=reason)
    if any(one in said for one in _AWAY):
        return contract.Unreachable(reason=reason)
    return contract.Refused(reason=reason)


def may_pass(said: str) -> bool:
    """Whether gluster has failed in what may do better later, by what it has said to somebody."""
    return any(one in said for one in (*_BUSY, *_AWAY))


def _told_in(text: str) -> str:
    """The reason that XML tells."""
    found = _WHY.search(text)
    return html.unescape(found[1]) if found else ""


def _said(answer: Answer) -> str:
    return " ".join(f"{answer.err} {answer.out}".split())[-_SAID:]


def read_info(volume: str, text: str) -> Info:
    """The volume that `gluster volume info` shows. Raises `contract.Gone` when it shows another, or none."""
    facts, _, options = text.partition("Options Reconfigured:")
    known = _pairs(facts)
    if known.get("Volume Name") != volume:
        raise contract.Gone(reason=f"gluster shows no volume {volume}")
    return Info(
        volume,
        is_started=known.get("Status") == "Started",
        options=_pairs(options),
        snapshot_count=int(known.get("Snapshot Count") or 0),
        bricks=[value for name, value in known.items() if _BRICK.fullmatch(name)],
    )


def _pairs(text: str) -> dict[str, str]:
    found = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in found if colon}


def read_quota(text: str) -> Quota | None:
    """The limit on the root that `gluster --xml volume quota ... list /` shows."""
    found = _LIMIT.search(text)
    return Quota(int(found[1]), int(found[2])) if found else None
