# SPDX-License-Identifier: Apache-2.0
"""What is made of a machine's state: is what is there the mount that is wanted, ours at all, or somebody else's?

Nothing is done here.
"""

from __future__ import annotations

import msgspec

from abaca.nodes import certificates, contract, persistence
from abaca.nodes.contract import InUse, Mount, Mounter, MountRefused, Seen, TimedOut
from abaca.nodes.machine import Hand, Mounted, State
from abaca.nodes.shell import Limits


class Judge(msgspec.Struct, frozen=True):
    """One mount on one machine, as it is wanted, and was before."""

    hand: Hand
    wanted: Mount
    mounter: Mounter
    limits: Limits
    old: Mount | None

    def _refuse_strangers(self, state: State) -> None:
        """Raises `MountRefused` when the mount point or what is kept for it belongs to somebody else."""
        where, reason = self.wanted.mount_point, ""
        for owner in self._strangers(state):
            reason = f"{where} belongs to the attachment {owner}"
            raise MountRefused(host=self.hand.host, reason=reason, owner=owner)
        if state.mounted is not None:
            if not self._is_from_us(state):
                reason = f"{where} is taken by {state.mounted.source} ({state.mounted.fstype})"
        elif state.real != state.exists:
            reason = f"{state.exists} is a link to {state.real or 'nowhere'}: name the real place"
        elif state.directory == "file":
            reason = f"{where} is a file"
        elif state.directory == "filled":
            reason = f"{where} is not empty, and its content would be hidden"
        reason = reason or self._kept_by_others(state)
        if reason:
            raise MountRefused(host=self.hand.host, reason=reason)

    def _kept_by_others(self, state: State) -> str:
        """What brings something back here that is not ours; empty for nothing."""
        where = self.wanted.mount_point
        if state.unit and not self._owns(state.unit.partition("\n")[0]):
            return f"a systemd unit {persistence.unit_name(where)} that is not Abaca's is there"
        if state.fstab and not self._owns(state.fstab_mark):
            return f"/etc/fstab has a line for {where} that is not Abaca's"
        return ""

    def _is_wanted(self, mounted: Mounted | None) -> bool:
        return self._is_share(mounted, self.wanted) and ("ro" in (mounted or _NONE).options) == self.wanted.is_read_only

    def _is_ours(self, state: State) -> bool:
        """Mounted from us, and not kept for somebody else alone, who may have mounted the same share themselves."""
        others = self._strangers(state) if self.wanted.was_seen else self._kept_by_others(state)
        return self._is_from_us(state) and (self._is_marked(state) or not others)

    def _is_from_us(self, state: State) -> bool:
        """Mounted from where it is wanted, or was, or from where our own mark says."""
        if any(self._is_share(state.mounted, one) for one in (self.wanted, self.old) if one):
            return True
        kept = self._sources(state, self.wanted.name)
        return state.mounted is not None and any(self.mounter.is_same(state.mounted.source, one) for one in kept)

    def _sources(self, state: State, name: str) -> list[str]:
        """From where a reboot mounts what bears the mark of `name` here."""
        kept = [line.split()[0] for line in state.fstab if _bears(state.fstab_mark, name)]
        if _bears(state.unit.partition("\n")[0], name):
            kept += [line[5:].replace("%%", "%") for line in state.unit.splitlines() if line.startswith("What=")]
        return [persistence.read_from_table(one) for one in kept]

    def _adopted(self, state: State) -> State:
        """What is kept for our former, as if it were ours; another share's is nobody's to take, and stays as it is."""
        kept = self._sources(state, self.wanted.former) if self.wanted.former else []
        if not kept or not all(self.mounter.is_same(one, self.wanted.source) for one in kept):
            return state
        former, ours = f"# abaca {self.wanted.former} ", f"# abaca {self.wanted.name} "
        unit, mark = (
            ours + text.removeprefix(former) if text.startswith(former) else text
            for text in (state.unit, state.fstab_mark)
        )
        return msgspec.structs.replace(state, unit=unit, fstab_mark=mark)

    def _is_share(self, mounted: Mounted | None, one: Mount) -> bool:
        is_type = mounted is not None and mounted.fstype == self.mounter.fstype
        return is_type and self.mounter.is_same((mounted or _NONE).source, one.source)

    def _owns(self, line: str) -> bool:
        return _bears(line, self.wanted.name)

    def _is_marked(self, state: State) -> bool:
        return any(name == self.wanted.name for name, _ in state.marks)

    def _strangers(self, state: State) -> list[str]:
        return [name for name, _ in state.marks if name != self.wanted.name]

    def _is_persistent(self, state: State) -> bool:
        in_unit = self._owns(state.unit.partition("\n")[0]) and state.is_enabled
        return in_unit or self._owns(state.fstab_mark)

    def _made(self, state: State) -> str:
        return next((made for name, made in state.marks if name == self.wanted.name), "")

    def _to_make(self, state: State) -> str:
        """The topmost directory that is made for it: now, or before; somebody may have removed one above that."""
        made = self._made(state)
        is_above = state.missing and made.startswith(f"{state.missing}/")
        return state.missing if is_above or not made else made

    def _seen(self, state: State) -> Seen:
        mounted = state.mounted or _NONE
        return Seen(
            source=mounted.source,
            mount_point=self.wanted.mount_point,
            fstype=mounted.fstype,
            options=mounted.options,
            is_read_only="ro" in mounted.options,
            made_directory=bool(self._made(state)),
            is_persistent=self._is_persistent(state),
            boot_id=state.boot_id,
            needs_certificate=certificates.ends_soon(state.certificate),
        )

    def _failure(self, state: State) -> contract.NodeError:
        if state.mounted is not None and (state.holders or "busy" in state.problem.lower()):
            return InUse(host=self.hand.host, holders=state.holders)
        if state.has_hung:
            what = "unmounting" if state.mounted else "mounting"
            reason = f"{what} {self.wanted.mount_point} hangs, so the server of {self.wanted.source} does not answer"
            return TimedOut(host=self.hand.host, reason=reason)
        reason = state.problem or f"{self.wanted.mount_point} is not in its mount table"
        return MountRefused(host=self.hand.host, reason=reason)


def _bears(line: str, name: str) -> bool:
    """Whether a line is the mark of `name`."""
    found = persistence.read_mark(line)
    return found is not None and found[0] == name


_NONE = Mounted("", "", ())
