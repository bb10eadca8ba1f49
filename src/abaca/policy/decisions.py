# SPDX-License-Identifier: Apache-2.0
"""oslo.policy with a memory: a decision depends on few facts, and the same few facts come again and again.

What a rule looks at is read from its parsed form: the caller's roles always, and for each `kind:match` check whether
the caller's `kind` equals what `match` says about the target. Those booleans and the roles are the key of the memory. A
rule that looks at anything else (a remote service, say) is asked anew each time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_policy import policy as oslo

from abaca import errors
from abaca.domain.callers import Caller, Identity
from abaca.policy import BASE_RULES, CONTEXT_IS_ADMIN, Rule

LOG = logging.getLogger(__name__)
LOOK_AT_FILE_S = 1.0
REMEMBERED = 10_000

# Name, time and size of each file.
Stamp = tuple[tuple[str, int, int], ...]
Fact = Callable[[Mapping[str, object], Mapping[str, object]], bool]


class _Loaded(NamedTuple):
    """The rules of one state of the files, and what was found under them."""

    enforcer: oslo.Enforcer
    facts: dict[str, tuple[Fact, ...] | None]
    remembered: dict[tuple[object, ...], bool]

    def ask(self, rule: str, who: Caller | Identity, creds: Mapping[str, object], target: Mapping[str, object]) -> bool:
        return bool(self.enforcer.enforce(rule, dict(target), {**creds, "roles": sorted(who.roles)}))


class Policy:
    """All rules, and the answer to `allows`."""

    def __init__(
        self,
        rules: Iterable[Rule],
        policy_file: Path | None = None,
        policy_dirs: Sequence[Path] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigError when an operator's file cannot be used or two routes give one rule different defaults."""
        self._file = policy_file
        self._dirs = tuple(policy_dirs)
        self._clock = clock
        self._defaults = _unique((*BASE_RULES, *rules))
        self._lock = threading.Lock()
        self._stamp: Stamp = ()
        self._next_look = 0.0
        self._rules = self._load()

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Every rule by name, with its default."""
        return self._defaults

    def is_admin(self, identity: Identity) -> bool:
        """Whether the roles make an administrator."""
        return self._decide(CONTEXT_IS_ADMIN, identity, {})

    def allows(self, rule: str, caller: Caller, *, project_id: str | None = None, user_id: str | None = None) -> bool:
        """Whether the caller may do this to a thing of `project_id` made by `user_id`; by default the caller's own."""
        target = {"project_id": project_id or caller.project_id, "user_id": user_id or caller.user_id}
        return self._decide(rule, caller, target)

    def _decide(self, rule: str, who: Caller | Identity, target: Mapping[str, object]) -> bool:
        now = self._clock()
        if now >= self._next_look:
            self._look_at_file(now)
        rules = self._rules
        if rule not in rules.facts:
            rules.facts[rule] = _facts(rules.enforcer.rules, rule)
        facts = rules.facts[rule]
        creds = {"user_id": who.user_id, "project_id": who.project_id, "system_scope": who.system_scope}
        if facts is None:
            return rules.ask(rule, who, creds, target)
        key = (rule, who.roles, *[fact(creds, target) for fact in facts])
        answer = rules.remembered.get(key)
        if answer is None:
            if len(rules.remembered) >= REMEMBERED:
                rules.remembered.clear()
            answer = rules.remembered[key] = rules.ask(rule, who, creds, target)
        return answer

    def _look_at_file(self, now: float) -> None:
        with self._lock:
            self._next_look = now + LOOK_AT_FILE_S
            if self._look() == self._stamp:
                return
            try:
                self._rules = self._load()
            except errors.ConfigError as reason:
                # The rules that were good a second ago go on; the broken file is not tried again until it changes.
                LOG.error("%s", reason)

    def _look(self) -> Stamp:
        """What changes when a file does, or comes, or goes."""
        found = []
        for file in self._files():
            try:
                stat = file.stat()
                found.append((str(file), stat.st_mtime_ns, stat.st_size))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # it may be there: reading it says why it cannot be used
                found.append((str(file), -1, -1))
        return tuple(found)

    def _files(self) -> list[Path]:
        more = [file for directory in self._dirs for file in sorted(directory.glob("*.yaml"))]
        return [self._file, *more] if self._file else more

    def _load(self) -> _Loaded:
        self._stamp = self._look()
        texts = {rule.name: rule.check for rule in self._defaults.values()}
        for name, _, _ in self._stamp:
            try:
                texts |= _read(Path(name))
            except (OSError, ValueError, AttributeError, TypeError) as reason:
                why = " ".join(str(reason).split())
                raise errors.ConfigError(
                    problem=f"The policy file {name} cannot be used: {why}", mend="Correct it, or remove it"
                ) from reason
        conf = cfg.ConfigOpts()
        conf([], project="abaca", default_config_files=[], default_config_dirs=[])
        # Without use_conf it does not look for files by itself: a broken one must not take the good rules away.
        enforcer = oslo.Enforcer(conf, use_conf=False)
        enforcer.set_rules(oslo.Rules.from_dict(texts), use_conf=False)
        return _Loaded(enforcer, {}, {})


def _read(file: Path) -> dict[str, str]:
    """The rules of a file by name. Raises ValueError, TypeError and others for what is not such a file."""
    found = oslo.parse_file_contents(file.read_text(encoding="utf-8"))
    for name, text in found.items():
        if not isinstance(text, str):
            raise TypeError(f"the rule {name} must be text")
    return dict(found)


def _unique(rules: Iterable[Rule]) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for rule in rules:
        if found.setdefault(rule.name, rule).check != rule.check:
            raise errors.ConfigError(problem=f"Rule {rule.name} has two defaults", mend="Give both routes the same one")
    return found


def _facts(rules: Mapping[str, Any], name: str) -> tuple[Fact, ...] | None:
    """What the rule looks at besides roles; None when that cannot be told from its form."""
    found: dict[str, Fact] = {}
    seen: set[str] = set()

    def walk(check: Any) -> bool:
        kind = type(check).__name__
        if kind in ("TrueCheck", "FalseCheck", "RoleCheck"):
            return kind != "RoleCheck" or "%" not in check.match
        if kind in ("AndCheck", "OrCheck"):
            return all(walk(part) for part in check.rules)
        if kind == "NotCheck":
            return walk(check.rule)
        if kind == "RuleCheck":
            if check.match in seen or check.match not in rules:
                return True
            seen.add(check.match)
            return walk(rules[check.match])
        if kind == "GenericCheck" and check.kind in ("user_id", "project_id", "system_scope"):
            found[str(check)] = _equal(check.kind, check.match)
            return True
        return False

    known = name in rules and walk(rules[name])
    return tuple(found.values()) if known else None


def _equal(kind: str, match: str) -> Fact:
    def fact(creds: Mapping[str, object], target: Mapping[str, object]) -> bool:
        try:
            return str(creds.get(kind)) == match % target
        except KeyError:
            return False

    if match == f"%({kind})s":
        return lambda creds, target: creds[kind] == target.get(kind)
    return fact
