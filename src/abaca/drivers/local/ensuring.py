# SPDX-License-Identifier: Apache-2.0
"""How the local driver finds out what is not so as it shall be, and mends it."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.exports import clients
from abaca.drivers.local.exporters import Exporter
from abaca.drivers.local.pool import GIB
from abaca.drivers.local.serving import SHARES, SNAPSHOTS, Serving, snapshot_pseudo


class Ensuring(Serving, contract.Ensures, contract.Enumerates, contract.Inspects, contract.Fences):
    """Limits, mounts and exports as they are known; and what comes too late."""

    def fence(self, instance: contract.ShareInstance) -> None:
        with self.changing(instance):
            """The generation is kept."""

    def ensure(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        self.revive()
        outcomes = {}
        for instance in instances:
            with self.one(instance):
                is_late = self.fences.is_superseded(instance.id, instance.generation)
                outcome = contract.EnsureOutcome(is_superseded=True) if is_late else self._ensure(instance)
            if outcome is not None:
                outcomes[instance.id] = outcome
        return outcomes

    def _ensure(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        """Repair one; None when nothing was to be done."""
        try:
            outcome = self._look(instance)
            if outcome is not None:
                if self._is_limited_wrongly(instance):
                    self.pool.limit(instance.id, instance.size_gib)
                exporter = self.exporter(instance)
                self.serve(exporter, SHARES, instance.id, self.pseudo(instance), None)
                for id, exports in self._snapshots(instance).items():
                    if exports:
                        self.serve(exporter, SNAPSHOTS, id, snapshot_pseudo(id), None)
        except (contract.Gone, contract.Refused) as error:
            return contract.EnsureOutcome(status="error", reason=error.message)
        except contract.Unreachable as error:
            if not self.backend.driver_handles_share_servers:
                raise
            return contract.EnsureOutcome(is_failed=True, reason=error.message)  # its share server; others serve
        return outcome

    def instances_after(self, after: str, most: int) -> list[str]:
        self.pool.check_mounted()
        return self.pool.ids_after(SHARES, after, most)

    def inspect(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        outcomes = {}
        for instance in instances:
            with self.one(instance):
                try:
                    outcome = self._look(instance)
                except (contract.Gone, contract.Refused) as error:
                    outcome = contract.EnsureOutcome(status="error", reason=error.message)
            if outcome is not None:
                outcomes[instance.id] = outcome
        return outcomes

    def _look(self, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        """What is not as it shall be, None when all is. Raises `Gone`."""
        pseudo, exporter = self.pseudo(instance), self.exporter(instance)
        served = self._untrue(exporter, SHARES, instance.id, pseudo)
        is_ruled = _is_ruled(exporter, instance)
        limit = [f"its limit was not {instance.size_gib} GiB"] if self._is_limited_wrongly(instance) else []
        exports = exporter.exports(pseudo)
        moved = exports if set(exports) != set(instance.exports) else None
        snapshots = self._snapshots(instance)
        of_snapshots = [
            f"of snapshot {id}, {said}"
            for id, places in snapshots.items()
            if places
            for said in self._untrue(exporter, SNAPSHOTS, id, snapshot_pseudo(id))
        ]
        others = {id: places for id, places in snapshots.items() if set(places) != set(instance.snapshot_exports[id])}
        if moved is None and is_ruled and not (served or limit or of_snapshots or others):
            return None
        return contract.EnsureOutcome(
            exports=moved,
            reapply_access_rules=bool(served) or not is_ruled,
            repairs=[*limit, *served, *of_snapshots],
            snapshot_exports=others,
        )

    def _snapshots(self, instance: contract.ShareInstance) -> dict[str, list[contract.Export]]:
        """Where its snapshots that are known to be exported can be mounted from; nowhere when they are gone."""
        return {
            id: self.exporter(instance).exports(snapshot_pseudo(id)) if self.pool.holds(SNAPSHOTS, id) else []
            for id in instance.snapshot_exports
        }

    def _untrue(self, exporter: Exporter, kind: str, id: str, pseudo: str) -> list[str]:
        """What is wrong with how it is served."""
        held = exporter.ganesha.get(f"{kind}/{id}")
        found = [] if self.pool.is_mounted(kind, id) else ["it was not mounted on the host"]
        if held is None:
            found.append("it had no export")
        elif held.pseudo != pseudo or not exporter.ganesha.is_true(held):
            found.append("its export was not as written")
        return found

    def _is_limited_wrongly(self, instance: contract.ShareInstance) -> bool:
        """Not known of one that somebody may be resizing at this moment. Raises `Gone`."""
        _, limit_bytes = self.pool.usage(instance.id)
        return instance.is_held and limit_bytes != instance.size_gib * GIB


def _is_ruled(exporter: Exporter, instance: contract.ShareInstance) -> bool:
    """Whether those who shall reach it, where that is told, are those whom its export lets in."""
    held = exporter.ganesha.get(f"{SHARES}/{instance.id}")
    if instance.rules is None or held is None:
        return True
    return held.clients == tuple(clients.from_rules(instance.rules)[0])
