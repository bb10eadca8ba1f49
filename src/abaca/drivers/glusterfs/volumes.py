# SPDX-License-Identifier: Apache-2.0
"""Volumes as Heketi has them: made, found again, made larger, taken away.

What takes Heketi a while is begun, and looked at by the calls that follow; nothing waits here. The name of a volume is
made of the instance's id, so that it is found again whatever becomes of a queue, and by whom. Heketi hides what it has
begun and not ended; whether such a thing has the name is asked by ordering one that can never fit.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from abaca.drivers import contract
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import durability

GIB_KIB = 1 << 20
MAKING, GROWING, DELETING, CLEANING = "making", "growing", "deleting", "cleaning up after"
_NEVER_FITS_GIB = 1_000_000_000
_LEAST_PAUSE_S, _GREATEST_PAUSE_S = 0.1, 5.0
_PAUSE_S = 2.0
# Looks take CPU from the nodes and from Heketi where these are near.
_LOOKED_AT_PER_S = 10
# Whoever Heketi has no place for asks again: the more there are, the later, or their asking alone would occupy it.
_ASKED_PER_S, _LEAST_TURN_S, _GREATEST_TURN_S = 4, 0.25, 10.0
_LEAVES = "it cannot take away what it has given up"
_MEND = "an administrator can let go of the share by `openstack share abandon`"
# Under this name stands what is cleaned up after all volumes.
_ALL = "itself"


class Nodes(Protocol):
    """What is known of the nodes of a cluster; each text is empty where there is nothing to tell."""

    def away(self, cluster: str) -> str:
        """Which do not answer, and why."""

    def unwell(self, cluster: str) -> str:
        """The same; where all answer, on which of them glusterd does not."""

    def lost(self, cluster: str) -> str:
        """Which are lost for good."""


class Begun(msgspec.Struct, frozen=True):
    """What Heketi was told to do for a volume of a cluster, the place of that in its queue, and when that was."""

    work: str
    cluster: str
    place: str
    at_s: float


class Sized(msgspec.Struct, frozen=True):
    """What is remembered of a volume, as long as its bricks take the same room."""

    bricks_kib: int
    name: str
    size_gib: int


def ordered_gib(size_gib: int) -> int:
    """How large a volume must be for users to have so much of it: file systems and gluster need some themselves."""
    return size_gib + max(1, math.ceil(size_gib / 50))


def usable_gib(ordered: int) -> int:
    """How much of a volume of that size users can have."""
    size_gib = max(0, ordered - 1)
    while size_gib and ordered_gib(size_gib) > ordered:
        size_gib -= 1
    return size_gib


class Volumes:
    """The volumes of a Heketi. What it raises is what the client raises; while `nodes` are away it names them."""

    def __init__(self, client: heketi.Heketi, patience_s: float, nodes: Nodes) -> None:
        self.client = client
        self._patience_s = patience_s
        self._nodes = nodes
        self._names: dict[str, str] = {}
        self._sized: dict[str, Sized] = {}
        self._begun: dict[str, Begun] = {}
        self._line: dict[str, float] = {}
        self._cleaned: set[str] = set()
        self._one_at_a_time = threading.Lock()
        self.turns = 0
        """How often something was begun here, or had ended."""

    def named(self, name: str, cluster: str | None = None) -> heketi.Volume | None:
        """The volume of that name, in that cluster where one is given: another may have one of the same name.

        None without one. Names never change, so each is asked for once.
        """
        ids = self.client.volumes()
        found = (id for id in ids if self._name(id) == name)
        for known in (self._names, self._sized):
            for id in known.keys() - set(ids):
                known.pop(id, None)
        volumes = filter(None, map(self.of_id, found))
        return next((one for one in volumes if cluster is None or one.cluster == cluster), None)

    def names(self, ids: Iterable[str]) -> list[str]:
        """What these volumes are called, without those that have just gone."""
        return [name for id in ids if (name := self._name(id)) is not None]

    def _name(self, id: str) -> str | None:
        known = self._names.get(id)
        if known is None:
            try:
                known = self._names[id] = self.client.volume(id).name
            except contract.Gone:
                return None
        return known

    def of_id(self, id: str) -> heketi.Volume | None:
        """The volume of that id; None without one."""
        try:
            return self.client.volume(id)
        except contract.Gone:
            return None

    def settle(self, name: str, work: str) -> bool:
        """Whether `work`, begun here for the volume, has ended well; False for none, and for what Heketi has forgotten.

        Other work for it has ended then, however it did. Raises `contract.UnderWay` before, and why `work` failed:
        `heketi.FailedForNow` where nodes do not answer, since it may do better when they are back.
        """
        begun = self._begun.get(name)
        if begun is None:
            return False
        try:
            result = self.client.look(begun.place)
        except (heketi.FailedForNow, contract.Full, contract.Gone, contract.Refused) as error:  # it is told once
            self._forget(name)
            if begun.work == work and not isinstance(error, heketi.Forgotten):
                if unwell := self._nodes.unwell(begun.cluster):
                    raise heketi.FailedForNow(reason=f"{error.details['reason']}; {unwell}") from error
                raise
            return False
        if result is None:
            raise self._under_way(f"{begun.work} {name}", begun.cluster, self._pause_s(begun))
        self._forget(name)
        return begun.work == work

    def _forget(self, name: str) -> None:
        self._begun.pop(name, None)
        self.turns += 1

    def make(self, order: heketi.Order) -> heketi.Volume:
        """The volume of that name, made if there is none. Raises `contract.UnderWay`, `Full`."""
        found = self.named(order.name)
        if found is not None:
            return found
        (cluster,) = order.clusters
        try:
            self._begin(order.name, MAKING, cluster, lambda: self.client.make(order))
        except heketi.NameTaken:
            self._clean_up(cluster)
            raise self._under_way(f"still at {order.name}", cluster) from None
        found = self.named(order.name)
        if found is None:
            raise self._under_way(f"{MAKING} {order.name} anew, which it has lost", cluster)
        return found

    def expand(self, volume: heketi.Volume, to_gib: int) -> None:
        """The volume has at least that size. Begun twice for one volume it would grow twice."""
        with self._one_at_a_time:
            if self._growth(volume):
                raise self._under_way(f"{GROWING} {volume.name}", volume.cluster)
            now = self.client.volume(volume.id)
            if now.size >= to_gib:
                return
            by_gib = max(to_gib - now.size, durability.least_gib(now.durability))
            is_done = self._begin(volume.name, GROWING, volume.cluster, lambda: self.client.expand(volume.id, by_gib))
        if not is_done:
            raise self._under_way(f"{GROWING} {volume.name} anew, which it has lost", volume.cluster)

    def left_bricks(self, volume: heketi.Volume) -> list[str]:
        """The ids of the bricks of expansions that were abandoned. Raises `contract.UnderWay` for one that goes on."""
        growth = self._growth(volume)
        if any(not one.is_abandoned for one in growth):
            raise self._under_way(f"{GROWING} {volume.name}", volume.cluster)
        return [change.id for one in growth for change in one.changes if change.description == heketi.ADDS_BRICK]

    def forget_growth(self, volume: heketi.Volume) -> None:
        """Nothing is left in Heketi of expansions that were abandoned. Raises `contract.UnderWay` until it is so."""
        with self._one_at_a_time:
            if self._clean(volume.name, volume.cluster, self._growth(volume)):
                raise self._under_way(f"{CLEANING} {volume.name}", volume.cluster)

    def _growth(self, volume: heketi.Volume) -> list[heketi.Pending]:
        return [one for one in self.client.pending("expand-volume") if _is_of(one, volume.id)]

    def delete(self, volume: heketi.Volume) -> None:
        """The volume is gone, with its data. Raises `contract.UnderWay`."""
        is_done = False
        with contextlib.suppress(contract.Gone):  # or it is hidden, since somebody has begun to delete it
            is_done = self._begin(volume.name, DELETING, volume.cluster, lambda: self.client.delete(volume.id))
        if not is_done:
            raise self._under_way(f"{DELETING} {volume.name}", volume.cluster)

    def forget(self, name: str, cluster: str) -> None:
        """Nothing that Heketi hides has the name, which no volume has. Raises `contract.UnderWay`."""
        if self._is_taken(name, cluster):
            self._clean_up(cluster)
            raise self._under_way(f"still at {name}", cluster)

    def ordered(self, nodes: Sequence[heketi.Node], ids: Sequence[str]) -> list[Sized]:
        """Name and size of each volume; only those whose bricks have changed are asked for."""
        room: dict[str, int] = {}
        for brick in (brick for node in nodes for device in node.devices for brick in device.bricks):
            room[brick.volume] = room.get(brick.volume, 0) + brick.size
        return [one for id in ids if (one := self._sized_as(id, room)) is not None]

    def _sized_as(self, id: str, room: Mapping[str, int]) -> Sized | None:
        known = self._sized.get(id)
        bricks_kib = room.get(id, 0)
        if known is None or known.bricks_kib != bricks_kib:
            volume = self.of_id(id)
            if volume is None:
                self._sized.pop(id, None)
                return None
            known = self._sized[id] = Sized(bricks_kib, volume.name, volume.size)
        return known

    def _is_taken(self, name: str, cluster: str) -> bool:
        """Whether any volume has the name, those that are hidden included: names are compared before sizes."""
        order = heketi.Order(name, _NEVER_FITS_GIB, durability.read("none"), [cluster])
        try:
            place = self.client.make(order)
        except heketi.NameTaken:
            return True
        except contract.Full:
            return False
        raise contract.Refused(reason=f"Heketi makes a volume of {_NEVER_FITS_GIB} GiB, see {place}")

    def _clean_up(self, cluster: str) -> None:
        """Volumes that were begun, or begun to be deleted, and abandoned are taken away. Raises as `_clean` does."""
        with self._one_at_a_time:
            self.settle(_ALL, CLEANING)
            hiding = [one for kind in ("create-volume", "delete-volume") for one in self.client.pending(kind)]
            self._clean(_ALL, cluster, hiding)

    def _clean(self, name: str, cluster: str, pending: Iterable[heketi.Pending]) -> bool:
        """Whether Heketi was told to clean up after any of these, since they were abandoned.

        It does not say whether it could. Raises `contract.UnderWay`, and `heketi.FailedForNow` where it could not since
        nodes of the cluster do not answer, and is told again when they do, or are lost for good.
        """
        abandoned = [one.id for one in pending if one.is_abandoned]
        left = self._cleaned.intersection(abandoned)
        if left and (away := self._nodes.away(cluster)):
            raise heketi.FailedForNow(reason=f"{_LEAVES}; {away}")
        self._cleaned -= left
        if left and (lost := self._nodes.lost(cluster)):
            raise heketi.FailedForNow(reason=f"{_LEAVES}; nodes are lost for good: {lost}; {_MEND}")
        if abandoned:
            self._cleaned.update(abandoned)
            self._begin(name, CLEANING, cluster, lambda: self.client.clean_up(abandoned))
        return bool(abandoned)

    def _begin(self, name: str, work: str, cluster: str, begin: Callable[[], str]) -> bool:
        """Begin it, and look at once whether it has ended; as for `settle`."""
        try:
            place = begin()
        except heketi.EnoughToDo as error:
            error.look_again_s = self._turn_s(name)
            raise
        self._line.pop(name, None)
        self._begun[name] = Begun(work, cluster, place, time.monotonic())
        self.turns += 1
        return self.settle(name, work)

    def _pause_s(self, begun: Begun) -> float:
        """After how many seconds it is looked at again: a twentieth of what it has taken, later the more are begun.

        All that are begun are looked at in one moment: the journal takes up together what is due together.
        """
        now_s = time.monotonic()
        every_s = max((now_s - begun.at_s) / 20, len(self._begun) / _LOOKED_AT_PER_S, _LEAST_PAUSE_S)
        return min(every_s - now_s % every_s, _GREATEST_PAUSE_S)

    def _turn_s(self, name: str) -> float:
        """After how many seconds Heketi, which has enough to do, is asked again for a volume."""
        now_s = time.monotonic()
        self._line[name] = now_s
        for other, asked_s in list(self._line.items()):
            if now_s > asked_s + 2 * _GREATEST_TURN_S:  # nobody waits for it any more
                self._line.pop(other, None)
        return min(max(len(self._line) / _ASKED_PER_S, _LEAST_TURN_S), _GREATEST_TURN_S)

    def _under_way(self, what: str, cluster: str, pause_s: float = _PAUSE_S) -> contract.UnderWay:
        away = self._nodes.away(cluster)
        reason = f"Heketi is {what}, {away}" if away else f"Heketi is {what}"
        return contract.UnderWay(reason=reason, look_again_s=pause_s, within_s=self._patience_s)


def _is_of(pending: heketi.Pending, volume_id: str) -> bool:
    return any(change.id == volume_id for change in pending.changes)
