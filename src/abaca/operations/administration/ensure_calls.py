# SPDX-License-Identifier: Apache-2.0
"""How a driver is asked to make a page of shares true: in one call where it can, else share by share in threads."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from abaca import errors
from abaca.drivers import contract

log = logging.getLogger(__name__)

Outcomes = dict[str, contract.EnsureOutcome]


def can_ensure(driver: object) -> bool:
    """Whether it has one of the two ways."""
    return isinstance(driver, contract.Ensures | contract.EnsuresEach)


def ensure(driver: object, instances: Sequence[contract.ShareInstance], threads: int) -> Outcomes:
    """What became of each; one that is left out is unchanged.

    Share by share at most `threads` go on at once, and one that cannot be ensured fails alone. Raises `BackendError`
    when the driver has no way, or the back end is away.
    """
    if not instances:
        return {}
    if isinstance(driver, contract.Ensures):
        return driver.ensure(instances)
    if not isinstance(driver, contract.EnsuresEach):
        raise errors.BackendError(reason="ensuring shares is unsupported by its driver")
    return _each(driver, instances, threads)


def inspect(driver: object, instances: Sequence[contract.ShareInstance]) -> Outcomes:
    """What `ensure` would do. Raises `BackendError` when the driver cannot look without touching."""
    if not isinstance(driver, contract.Inspects):
        raise errors.BackendError(reason="its driver cannot look at shares without ensuring them")
    return driver.inspect(instances) if instances else {}


def _each(driver: contract.EnsuresEach, instances: Sequence[contract.ShareInstance], threads: int) -> Outcomes:
    away: list[contract.Unreachable] = []

    def one(instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
        try:
            return driver.ensure_share(instance)
        except contract.Gone as error:
            return contract.EnsureOutcome(status="error", reason=error.message)
        except errors.AbacaError as error:
            if isinstance(error, contract.Unreachable):
                away.append(error)
            return contract.EnsureOutcome(is_failed=True, reason=error.message)
        except Exception as error:
            log.exception("instance=%s cannot be ensured", instance.id)
            why = f"an unexpected {type(error).__name__} stopped it; the worker's log has the details"
            return contract.EnsureOutcome(is_failed=True, reason=why)

    with ThreadPoolExecutor(min(threads, len(instances)), thread_name_prefix="ensure") as pool:
        found = list(pool.map(one, instances))
    if len(away) == len(instances):
        raise away[0]
    return {instance.id: one for instance, one in zip(instances, found, strict=True) if one is not None}
