# SPDX-License-Identifier: Apache-2.0
"""Copies of snapshots' content into volumes: a job on a node each, which the volume's mark finds again.

The mark, an option of a new volume from its first moment, goes from `SNAPSHOT@NODE` to `ended@NODE` and to `ended`. A
copy stays on its node until that has left the cluster: two at a time, or one that goes on unseen, would write over what
users write later. So the job looks at the mark under its lock before it touches anything, and what tells that it has
ended is taken away only once the mark says so. All of it is below /run: a node that was started anew has no job.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import msgspec

from abaca.drivers import contract
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.seal import address_of, host_of
from abaca.drivers.glusterfs.serving import Held, Serving, serving
from abaca.nodes.shell import KILLED

log = logging.getLogger(__name__)

ENDED = "ended"
PROGRAMS = ("mount.glusterfs", "setsid", "flock", "mountpoint")
"""What nodes must have for it, beside what every machine has."""
PAUSES_S = "3 5 10 20 0"
"""After each try that found a volume away, whose bricks may only just have been started."""
_NOT_MOUNTED = "3"
_FULL = ("No space left", "quota exceeded")
_SAID = 300
_MOST = 99
"""The percent that is told until all has ended."""
# The lock is held as long as anything copies: what mounts would hold it for ever, and does not get it.
_JOB = r"""
cd "$1" && exec 9> lock && flock -n 9 && [ ! -e status ] || exit 0
echo $$ > pid
rm -f copying copied
LC_ALL=C
export LC_ALL
mounted() {
    mount -t glusterfs -o "$3acl,log-file=/var/log/glusterfs/abaca-copy.log" "$1" "$2" 9>&- && mountpoint -q "$2"
}
failed() {
    [ "$1" -lt 128 ] || echo "not connected any more, since it was killed"
    return 1
}
copy() {
    seen=$(gluster --mode=script volume info "$4" 2>&1 9>&-) || case $seen in
        *"does not exist"*) ;;
        *) echo "glusterd is not connected: $seen"; return 1 ;;
    esac
    printf '%s\n' "$seen" | grep -qxF "$5" || { rm -f pid said copying lock; rmdir from to; cd /; rmdir "$1"; exit 0; }
    for side in from to; do umount -l $side 2> /dev/null; done
    mounted "$2" from ro, || { echo "$2 cannot be mounted"; return 3; }
    mounted "$3" to "" || { echo "$3 cannot be mounted"; return 3; }
    : > copying
    [ -z "$7" ] || find to -mindepth 1 -delete || { failed $?; return 1; }
    cp -a from/. to/ || failed $?
}
for pause in $6; do
    copy "$@" > said 2>&1
    code=$?
    grep -qE 'not connected|cannot be mounted' said || break
    sleep $pause
done
[ ! -e copying ] || mv copying copied
for side in to from; do timeout -s KILL 20 umount $side || umount -l $side; done 2> /dev/null
echo $code > .status && mv .status status
"""
# All of it in a session of its own, which goes on when nobody is logged in any more, and is killed as one.
_BEGIN = """
umask 077 && mkdir -p "$2/from" "$2/to" && job=$1 && shift &&
setsid -f sh -c "$job" sh "$@" < /dev/null > /dev/null 2>&1
"""
_LOOK = """
cd "$1" 2> /dev/null || { echo none; exit 0; }
free=
flock -n lock true && free=y
if [ -e status ]; then
    echo "ended $(cat status)"
    tail -c 300 said
elif [ $free ]; then
    echo none
elif [ -e copied ]; then
    echo copied
else
    echo copying
    [ ! -e copying ] || timeout -s KILL 10 df -Pk from to || true
fi
"""
_STOP = """
cd "$1" 2> /dev/null || exit 0
exec 9> lock
tries=0
until flock -n 9; do
    [ $tries -lt 100 ] || { echo "what copies in $1 does not end" >&2; exit 1; }
    tries=$((tries + 1))
    [ ! -s pid ] || kill -KILL "-$(cat pid)" 2> /dev/null
    sleep 0.2
done
for side in to from; do
    timeout -s KILL 20 umount $side 2> /dev/null || umount -l $side 2> /dev/null
    [ ! -e $side ] || rmdir $side || exit 1
done
rm -f pid said copying copied .status status lock && cd / && rmdir "$1"
"""


class Mark(msgspec.Struct, frozen=True):
    """What a volume's mark tells: of which snapshot the copy is, empty once it has ended, and on which node."""

    snapshot_id: str
    node_id: str

    def __str__(self) -> str:
        return f"{self.snapshot_id or ENDED}@{self.node_id}" if self.node_id else ENDED


class Copying(Serving):
    """Volumes whose content is copied by one of their nodes, with its own certificate, by which each lets it in."""

    def push_copy(self, held: Held, origin: Callable[[], str], *, is_emptied: bool = False) -> contract.Progress:
        """Have the copy go on, or be ended, and tell how far it is; `origin` names the volume that the snapshot is of.

        A volume that is emptied has afterwards what the snapshot has, and nothing else.

        Raises `contract.Gone` without the snapshot, `contract.Full`, `contract.Refused` when it was given up, and what
        commands on nodes raise.
        """
        mark = _read(held.info.options)
        if mark is None:
            raise contract.Refused(reason=f"{held.name} was not made for a copy of a snapshot")
        node = _by_id(held.nodes, mark.node_id)
        if mark.snapshot_id:
            if node not in serving(held.nodes):  # the operator has taken it out of the cluster, or it is lost for good
                return self._move_copy(held, mark, node)
            status, said = self._look(node, held)
            if status == "none":
                self._begin(node, held, (mark, origin(), "emptied" if is_emptied else ""))
            if status in {"none", "copying", "copied"}:
                percent = _MOST if status == "copied" else _percent(said)
                return contract.Progress(percent=percent, details=f"{held.name} gets its content")
            if status == f"{ENDED} {_NOT_MOUNTED}":
                return self._pass_on(held, mark, node, said)
            if status != f"{ENDED} 0":
                _fail(node, said)
            self._end_copy(held, mark)
            mark = Mark("", mark.node_id)
        if mark.node_id:
            self._stop_lost(node, held.name)
            self._set_mark(held, Mark("", ""))
        return contract.DONE

    def first_mark(self, snapshot_id: str, nodes: Sequence[heketi.Node], instance_id: str) -> str:
        """The mark that a volume is made with. Raises `contract.Unreachable` when there is no node."""
        return f"{names.COPY} {Mark(snapshot_id, _first(nodes, instance_id).id)}"

    def mark_copy(self, held: Held, snapshot_id: str) -> None:
        """Have the next `push_copy` begin, on the node that tries first. Raises `contract.Unreachable`."""
        self._set_mark(held, Mark(snapshot_id, _first(held.nodes, _instance_of(held)).id))

    def unmark_copy(self, held: Held) -> None:
        """None shall be made: what a node was told to do and has not begun it leaves undone."""
        if _read(held.info.options) is not None:
            self._set_mark(held, Mark("", ""))

    def is_marked(self, held: Held, snapshot_id: str) -> bool:
        """Whether that copy was begun, and has not been ended whole."""
        mark = _read(held.info.options)
        return mark is not None and bool(mark.node_id) and mark.snapshot_id in {"", snapshot_id}

    def is_copied(self, held: Held) -> bool:
        """Whether the volume has all of its content."""
        mark = _read(held.info.options)
        return mark is not None and not mark.node_id

    def stop_copying(self, volume: heketi.Volume, options: Mapping[str, str]) -> None:
        """Nothing copies to the volume any more, which had these options; whatever it has been given stays there.

        Raises `contract.Busy`, and `contract.Unreachable` while its node is, unless that is lost for good.
        """
        mark = _read(options)
        if mark is None or not mark.node_id:
            return
        nodes = self.nodes(volume.cluster)
        node = _by_id(nodes, mark.node_id)
        if node in serving(nodes):
            self._stop(node, volume.name)
        else:
            self._stop_lost(node, volume.name)
        if mark.snapshot_id:
            with contextlib.suppress(contract.Gone):
                self.gluster(nodes, volume.name).deactivate(names.snapshot_of(mark.snapshot_id))

    def _begin(self, node: heketi.Node, held: Held, what: tuple[Mark, str, str]) -> None:
        mark, origin, emptied = what
        snapshot = names.snapshot_of(mark.snapshot_id)
        # After a power cut not all bricks are up; of a snapshot that is activated nothing else brings them back.
        held.gluster.deactivate(snapshot)
        held.gluster.activate(snapshot)
        held.gluster.start(held.name)
        own = address_of(node)
        ways = (f"{own}:/snaps/{snapshot}/{origin}", f"{own}:/{held.name}")
        words = (_directory(held.name), *ways, held.name, f"{names.COPY}: {mark}", PAUSES_S, emptied)
        self._on(node, _BEGIN, _JOB, *words)
        log.info("volume=%s node=%s a copy of %s begins", held.name, host_of(node), snapshot)

    def _look(self, node: heketi.Node, held: Held) -> tuple[str, str]:
        status, _, said = self._on(node, _LOOK, _directory(held.name)).partition("\n")
        return status, said

    def _end_copy(self, held: Held, mark: Mark) -> None:
        """What was copied is on disks, and the snapshot cannot be mounted any more."""
        self.write_out(held)
        with contextlib.suppress(contract.Gone):
            held.gluster.deactivate(names.snapshot_of(mark.snapshot_id))
        self._set_mark(held, Mark("", mark.node_id))

    def _stop_lost(self, node: heketi.Node | None, volume: str) -> None:
        """The same on a node that does not serve any more, if it answers; what stays there is in its memory."""
        try:
            if node is not None:
                self._stop(node, volume)
        except contract.Unreachable as error:
            log.warning("volume=%s %s stays on its node: %s", volume, _directory(volume), error)

    def _move_copy(self, held: Held, mark: Mark, former: heketi.Node | None) -> contract.Progress:
        """Begin anew on another node; the former one, which does not serve any more, is not let in any more."""
        kept = names.clients_in(held.info.options.get(names.ALLOW, ""))
        self.let_in(msgspec.structs.replace(held, nodes=serving(held.nodes)), kept)
        self._stop_lost(former, held.name)
        self._set_mark(held, Mark(mark.snapshot_id, _first(held.nodes, _instance_of(held)).id))
        return contract.Progress(percent=0, details=f"{held.name} gets its content from another node")

    def _pass_on(self, held: Held, mark: Mark, node: heketi.Node, said: str) -> contract.Progress:
        """Let the next node try: one that came after the snapshot is not let into that.

        Raises `contract.Unreachable` when it was the last one; the first begins anew when it is asked again. After a
        power cut bricks may need minutes.
        """
        order = _online(held.nodes)
        following = order[(order.index(node) + 1) % len(order)] if node in order else order[0]
        log.warning("volume=%s node=%s cannot copy, the next one tries: %s", held.name, host_of(node), said)
        self._stop(node, held.name)
        self._set_mark(held, Mark(mark.snapshot_id, following.id))
        if following == _first(held.nodes, _instance_of(held)):
            raise contract.Unreachable(reason=_cannot(node, said))
        return contract.Progress(percent=0, details=f"{held.name} gets its content by another node")

    def _set_mark(self, held: Held, mark: Mark) -> None:
        held.gluster.set(held.name, names.COPY, str(mark))

    def _stop(self, node: heketi.Node, volume: str) -> None:
        try:
            self._on(node, _STOP, _directory(volume))
        except contract.Refused as error:  # it is told again
            raise contract.Busy(reason=error.message) from error

    def _on(self, node: heketi.Node, script: str, *words: str) -> str:
        answer = self.machines.run(host_of(node), ["sh", "-c", script, "sh", *words])
        if answer.code:
            said = " ".join((answer.err or answer.out).split())[-_SAID:]
            failed = contract.Busy if answer.code == KILLED else contract.Refused
            raise failed(reason=f"{host_of(node)} copies no snapshot: {said or f'it says nothing, {answer.code}'}")
        return answer.out


def _read(options: Mapping[str, str]) -> Mark | None:
    value = options.get(names.COPY)
    if value is None:
        return None
    snapshot_id, _, node_id = value.partition("@")
    return Mark("" if snapshot_id == ENDED else snapshot_id, node_id)


def _directory(volume: str) -> str:
    return f"/run/abaca-copy-{volume}"


def _by_id(nodes: Sequence[heketi.Node], id: str) -> heketi.Node | None:
    return next((node for node in nodes if node.id == id), None)


def _online(nodes: Sequence[heketi.Node]) -> list[heketi.Node]:
    found = sorted((node for node in serving(nodes) if node.state == "online"), key=lambda node: node.id)
    if not found:
        raise contract.Unreachable(reason="the cluster has no node that is online")
    return found


def _first(nodes: Sequence[heketi.Node], of: str) -> heketi.Node:
    """The node that tries first: another one for each volume."""
    order = _online(nodes)
    return order[zlib.crc32(of.encode()) % len(order)]


def _instance_of(held: Held) -> str:
    return held.info.options.get(names.MARK, "")


def _percent(said: str) -> int:
    """How much of what is used at the source is used at the copy by now; `df` tells it as well as it can."""
    used = [int(parts[2]) for parts in map(str.split, said.splitlines()) if len(parts) > 2 and parts[2].isdigit()]
    if len(used) != 2 or not used[0]:
        return 0
    return min(_MOST, 100 * used[1] // used[0])


def _fail(node: heketi.Node, said: str) -> NoReturn:
    raise (contract.Full if any(one in said for one in _FULL) else contract.Refused)(reason=_cannot(node, said))


def _cannot(node: heketi.Node, said: str) -> str:
    return f"{host_of(node)} cannot copy the snapshot: {' '.join(said.split())[-_SAID:]}"
