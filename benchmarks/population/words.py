# SPDX-License-Identifier: Apache-2.0
"""What things of the filled database are called, and how that is said in SQL of a number `n`, by dialect."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Protocol

from abaca.domain.clusters.clusters import MOST_NODES

LARGE = "1a26e000000000000000000000000000"
SMALL_PROJECTS = 500
HOST = "bench"
# Back ends with three pools each, and the last digit but one of the shares that live in them: 60, 10 and 30 %.
BACKENDS = {"first": range(6), "second": range(6, 7), "third": range(7, 10)}
POOLS = 3
RARE_HOST = f"{HOST}@retired#pool1"
RARE = "rare"
RARE_SHARES = 10
UNITS = 1000
"""The number of shares is a multiple of this, so that parts of it are whole."""
YEAR_S = 365 * 86400
WEEK_S = 7 * 86400
PAGE = 50
PAUSED_OPERATIONS = 3
# The number of the cluster that has most nodes, behind those that are in error.
BIG_CLUSTER = 2 * RARE_SHARES + 2
FINDINGS = 1000

# What ids end with, by what they are of; they begin with its number, so they are in the order of their making.
KINDS = (
    "share", "instance", "location", "history", "ended", "rule", "large-server", "small-server", "attachment",
    "message", "operation", "lock", "finding", "event", "paused", "type", "zone", "rare", "ensuring", "counts",
    "snapshot", "snapshot-instance", "offer", "network", "subnet", "neutron-net", "neutron-subnet", "directory",
    "share-server", "allocation", "cluster", "node-group", "node", "node-of-five", "only-node", "template",
    "orphaned-mount", "machine",
)  # fmt: skip


def id_of(kind: str, number: int) -> str:
    """The id of the thing of a kind with a number, from 1."""
    return f"{number:08x}{_end(kind)}"


def _end(kind: str) -> str:
    return f"-0000-7000-8000-{KINDS.index(kind) + 1:012x}"


DEFAULT_TYPE, GOLD_TYPE, RARE_TYPE = (id_of("type", number) for number in (1, 2, 3))


class Dialect(Protocol):
    """How a database says what not all say alike; arguments and results are SQL."""

    def hexadecimal(self, number: str) -> str: ...

    def ago(self, seconds: str) -> str: ...

    def json(self, text: str) -> str: ...

    def service(self, host: str) -> str: ...


@dataclasses.dataclass(frozen=True)
class Sqlite:
    now: str

    def hexadecimal(self, number: str) -> str:
        return f"printf('%08x', {number})"

    def ago(self, seconds: str) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f', '{self.now}', (-1 * ({seconds})) || ' seconds') || '000'"

    def json(self, text: str) -> str:
        return text

    def service(self, host: str) -> str:
        return f"substr({host}, 1, instr({host}, '#') - 1)"


@dataclasses.dataclass(frozen=True)
class Postgresql:
    now: str

    def hexadecimal(self, number: str) -> str:
        return f"lpad(to_hex({number}), 8, '0')"

    def ago(self, seconds: str) -> str:
        return f"timestamp '{self.now}' - ({seconds}) * interval '1 second'"

    def json(self, text: str) -> str:
        return f"CAST({text} AS json)"

    def service(self, host: str) -> str:
        return f"split_part({host}, '#', 1)"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a table: one for each number `n` from 1 to `number` for which `where` is true; columns as SQL of `n`."""

    table: str
    number: int
    columns: Mapping[str, str]
    where: str = "true"
    source: str = "numbers"


class Words:
    """What is said of each of so many shares, in SQL."""

    def __init__(self, shares: int, dialect: Dialect) -> None:
        if shares < UNITS or shares % UNITS:
            raise ValueError(f"The number of shares must be a multiple of {UNITS}.")
        self.shares = shares
        # of the large project, and as many of the others; where shares are few, a page of each
        self.servers = max(shares // 200, PAGE)
        self.messages = max(shares // 20, 4 * PAGE)
        self.locks = max(shares // 100, 4 * PAGE)
        # of the large project and of all others as many each
        self.networks = 2 * max(shares // 1000, PAGE)
        self.clusters = 2 * max(shares // 2000, PAGE)
        self.big_cluster_nodes = min(self.servers, MOST_NODES)
        # of each kind for each of both
        self.templates = 4 * max(shares // 4000, PAGE)
        self.orphaned_mounts = max(shares // 200, 4 * PAGE)
        self.said = dialect

    def id(self, kind: str, number: str = "n") -> str:
        return f"{self.said.hexadecimal(number)} || '{_end(kind)}'"

    def since(self, number: str = "n") -> str:
        """When the share of that number was made."""
        return self.ago(f"({self.shares} - ({number})) * {YEAR_S / self.shares}")

    def ago(self, seconds: str) -> str:
        return self.said.ago(seconds)

    def json(self, text: str) -> str:
        return self.said.json(text)

    def is_rare(self, number: str = "n") -> str:
        return f"(({number}) % 10 = 0 AND ({number}) <= {10 * RARE_SHARES})"

    def is_offered(self) -> str:
        """Of the large project and of all others a hundredth each: shares that nothing else is done with."""
        return f"(n % 100 IN (30, 33) AND n > {20 * RARE_SHARES})"

    def is_binned(self) -> str:
        return f"(n % 10 = 0 AND n > {10 * RARE_SHARES} AND n <= {20 * RARE_SHARES})"

    def rarely(self, rare: str, else_: str = "NULL", number: str = "n") -> str:
        return f"CASE WHEN {self.is_rare(number)} THEN {rare} ELSE {else_} END"

    def server_number(self, number: str = "n") -> str:
        """Twenty shares in a row have two attachments: one of the large project, one of another."""
        return f"(1 + (({number}) / 20) % {self.servers})"

    def small(self, server: str) -> str:
        return f"'5a110000000000000000000' || '0' || {self.said.hexadecimal(f'({server} - 1) % {SMALL_PROJECTS}')}"

    def project(self, number: str = "n") -> str:
        """Whose the share of that number is."""
        small = self.small(self.server_number(number))
        return f"CASE WHEN ({number}) % 10 = 0 THEN '{LARGE}' ELSE {small} END"

    def user(self, number: str = "n") -> str:
        return self.rarely(f"'{RARE}'", f"'user-' || ((({number}) / 10) % 5)", number)

    def address(self, is_large: str, server: str) -> str:
        """Where a server is; no more than 250 times 250 of each kind."""
        net = f"CASE WHEN {is_large} THEN '1' ELSE '2' END"
        return f"'10.' || {net} || '.' || ({server} / 250) || '.' || (1 + {server} % 250)"

    def path(self, number: str = "n") -> str:
        return f"'192.0.2.1:/shares/' || {self.id('share', number)}"

    def pairs(self, **pairs: str) -> str:
        return self.said.json(f"'{json.dumps(pairs)}'")


def service(number: str) -> str:
    """The back end of the share of that number."""
    ways = (f"WHEN ({number}) / 10 % 10 IN {(*digits, -1)} THEN '{HOST}@{name}'" for name, digits in BACKENDS.items())
    return f"CASE {' '.join(ways)} END"


def host() -> str:
    return f"{service('n')} || '#pool' || (1 + n / 100 % {POOLS})"
