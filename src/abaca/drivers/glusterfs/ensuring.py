# SPDX-License-Identifier: Apache-2.0
"""How the GlusterFS driver finds out what is not so as it shall be, and mends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from abaca.drivers import contract
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.exporting import Exporting
from abaca.drivers.glusterfs.root_directory import RootDirectory
from abaca.drivers.glusterfs.serving import VOLUME_ID, Held, serving

log = logging.getLogger(__name__)

_AT_ONCE = 4

Look = Callable[[contract.ShareInstance], contract.EnsureOutcome | None]


class Ensuring(Exporting, RootDirectory, contract.Ensures, contract.Inspects):
    """Certificates, who is let in, limits and export locations as they are known."""

    def ensure(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self._each(instances, self._ensure)

    def inspect(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self._each(instances, lambda instance: self._difference(instance, self.held(instance)))

    def _each(self, instances: Sequence[contract.ShareInstance], look: Look) -> dict[str, contract.EnsureOutcome]:
        away: list[contract.Unreachable] = []
        # Whoever has shares looked at may just have given nodes another address.
        self.look_anew({instance.pool for instance in instances})

        def outcome(instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
            try:
                return look(instance)
            except contract.Gone as error:
                return contract.EnsureOutcome(status="error", reason=error.message)
            except (contract.Refused, contract.Busy, contract.Unreachable) as error:
                if isinstance(error, contract.Unreachable):
                    away.append(error)
                return contract.EnsureOutcome(is_failed=True, reason=error.message)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(outcome, instances))
        if away and len(away) == len(instances):  # of several clusters one may be away
            raise away[0]
        return {instance.id: one for instance, one in zip(instances, found, strict=True) if one is not None}

    def _ensure(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        held = self.held(instance)
        outcome = self._difference(instance, held)
        try:
            self.seal.close(serving(held.nodes))
        except contract.Unreachable as error:  # the other nodes serve; it is looked at again with the next share
            log.warning("instance=%s not all certificates could be looked at: %s", instance.id, error)
        if outcome is None or not outcome.repairs:
            return outcome
        self.mend_seal(held, self.let_in_by(instance, held))
        held = self.look(held.volume)
        if instance.is_held:
            self.give_back_root(held)
        if self._untrue_limit(instance, held):
            self.limit(held, instance.size_gib)
        self.hand_out(instance, held)
        return outcome

    def _difference(self, instance: contract.ShareInstance, held: Held) -> contract.EnsureOutcome | None:
        """What is not as it shall be; None when all is, and for what goes back to a snapshot at this moment."""
        if not instance.is_held and names.goes_back(held.info.options):
            return None
        exports = self.exports(instance, held)
        moved = exports if set(exports) != set(instance.exports) else None
        kept = {VOLUME_ID: held.volume.id}
        is_kept = dict(instance.driver_data) == kept
        untrue = [*self._untrue_limit(instance, held), *self.untrue_export(instance, held)]
        unsealed = self.unsealed(held)
        repairs = [*unsealed, *untrue]
        if not held.info.is_started:
            repairs.append("it was not started")
        if instance.is_held and self.is_root_noted(held):
            repairs.append("its topmost directory had lost owner and mode")
        is_ruled = self.is_ruled(instance, held)
        if moved is None and is_kept and is_ruled and not repairs:
            return None
        return contract.EnsureOutcome(
            exports=moved,
            # Who is let in is read some seconds before it is sealed, and rules may change meanwhile.
            reapply_access_rules=not is_ruled or bool(unsealed),
            repairs=repairs,
            driver_data=None if is_kept else kept,
        )

    def _untrue_limit(self, instance: contract.ShareInstance, held: Held) -> list[str]:
        """Not looked at where somebody may be changing it at this moment.

        It is not seen of a volume that is stopped, or that the nodes, which mount it for that, do not get into.
        """
        if not held.info.is_started or self.unsealed(held):
            return []
        allowed = names.clients_in(held.info.options.get(names.ALLOW, ""))
        if self.is_limited_later(held) and allowed <= {names.NFS}:
            return []
        limit_gib = self.limit_gib(held)
        if limit_gib is None:
            return ["what it holds was not counted"]
        is_right = not instance.is_held or limit_gib == instance.size_gib
        return [] if is_right else [f"its limit was {limit_gib:g} GiB instead of {instance.size_gib}"]
