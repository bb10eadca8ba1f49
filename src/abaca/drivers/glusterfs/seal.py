# SPDX-License-Identifier: Apache-2.0
"""Certificates on the nodes, before a brick of ours starts there.

A node makes its key itself and keeps it; what leaves it is the signing request. Looked at are certificate, key and
authority as they are on the node, so that a node that was made anew gets them again.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.authority import Authority, Foreign
from abaca.drivers.clients import heketi
from abaca.drivers.clients.machines import Machines
from abaca.drivers.glusterfs import names
from abaca.nodes.shell import KILLED

log = logging.getLogger(__name__)

KNOWN_S = 600.0
"""So long a node that was looked at is believed to be as it was."""
_AT_ONCE = 8
_PART = "-----abaca-part-----"
# Each is a fixed text; what differs comes as words: $1 is the directory.
_LOOK = f"""cd "$1" || exit 1
for file in glusterfs.pem glusterfs.ca; do cat "$file" 2>/dev/null; echo {_PART}; done
[ ! -e glusterfs.key ] || openssl pkey -in glusterfs.key -pubout 2>/dev/null || true"""
_REQUEST = (
    """cd "$1" && umask 077 && exec openssl req -new -newkey rsa:2048 -nodes -keyout .abaca.key -subj "/CN=$2" """
)
# The place where OpenSSL looks by itself, and GlusterFS with it, is another one on Debian.
_KEEP = """set -e
cd "$1"
umask 077
printf '%s' "$2" > .abaca.pem
printf '%s' "$3" > .abaca.ca
chmod 644 .abaca.pem .abaca.ca
mv -f .abaca.ca glusterfs.ca
mv -f .abaca.key glusterfs.key
mv -f .abaca.pem glusterfs.pem
other=$(openssl version -d | sed 's/^OPENSSLDIR: "\\(.*\\)"$/\\1/')
[ "$1" = /etc/ssl ] && [ -d "$other" ] && ! [ "$other" -ef "$1" ] || exit 0
for file in pem key ca; do
    [ -e "$other/glusterfs.$file" ] || ln -s "$1/glusterfs.$file" "$other/glusterfs.$file"
done"""


class Seal:
    """The certificates of all nodes of a back end."""

    def __init__(self, machines: Machines, authority: Authority, directory: str) -> None:
        self._machines = machines
        self._authority = authority
        self._directory = directory
        self._one = threading.Lock()
        self._seen_s: dict[str, float] = {}
        self._looked_s: dict[str, float] = {}
        self._ends: dict[str, datetime.datetime] = {}

    def close(self, nodes: Iterable[heketi.Node]) -> None:
        """Each node has a certificate of ours, and one that is good for a while.

        Raises `contract.Unreachable` for a node that cannot be looked at, `contract.Refused` for one that has a
        certificate of another authority.
        """
        with self._one:
            due = [node for node in nodes if time.monotonic() > self._seen_s.get(node.id, -KNOWN_S) + KNOWN_S]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._close, due))

    def first_end(self, nodes: Iterable[heketi.Node]) -> datetime.datetime | None:
        """When the first of the nodes' certificates ends, as far as that is known; they are looked at now and then.

        Whose end is near is told to the operator. A node that cannot be looked at has the end that it had.
        """
        asked = list(nodes)
        due = [node for node in asked if time.monotonic() > self._looked_s.get(node.id, -KNOWN_S) + KNOWN_S]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._note_end, due))
        return min((self._ends[node.id] for node in asked if node.id in self._ends), default=None)

    def _note_end(self, node: heketi.Node) -> None:
        self._looked_s[node.id] = time.monotonic()
        try:
            left_days = self.days_left(node)
        except errors.BackendError as error:
            log.warning("node=%s its certificate cannot be looked at: %s", node.id, error)
            return
        self._note(node, left_days)
        if left_days is not None and left_days < self._authority.renew_days:
            mend = "`abaca certificate renew --restart` brings another one to all nodes"
            log.warning("node=%s its certificate ends in %.0f days: %s", host_of(node), left_days, mend)

    def _note(self, node: heketi.Node, left_days: float | None) -> None:
        if left_days is None:
            self._ends.pop(node.id, None)
        else:
            self._ends[node.id] = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=left_days)

    def _close(self, node: heketi.Node) -> None:
        host = host_of(node)
        left_days = self.days_left(node)
        if left_days is None or left_days < self._authority.renew_days:
            self.renew(node)
        else:
            self._note(node, left_days)
        if left_days is not None and left_days < self._authority.renew_days:
            # Whatever runs has read the old one, and goes on with it.
            mend = "`abaca certificate renew --restart` starts the volumes anew, which has to be before that"
            log.warning("node=%s the old certificate ends in %.0f days: %s", host, left_days, mend)
        self._seen_s[node.id] = time.monotonic()

    def renew(self, node: heketi.Node) -> None:
        """A new key and a new certificate, whatever it has. What runs there goes on with what it has read.

        Raises as `close` does.
        """
        host, name = host_of(node), names.node(node.id)
        request = self._on(host, _REQUEST, name)
        self._on(host, _KEEP, self._authority.sign(request, name), self._authority.pem)
        self._note(node, self.days_left(node))
        log.info("node=%s has a new certificate %s", host, name)

    def days_left(self, node: heketi.Node) -> float | None:
        """For how many days the node has a good certificate; None when it has none. Raises as `close` does."""
        host = host_of(node)
        pem, authority, key = (part.strip() for part in self._on(host, _LOOK).split(_PART))
        try:
            left_days = self._authority.days_left(pem, names.node(node.id), key)
        except Foreign as error:
            mend = "move it away there, or give its authority to this back end"
            raise contract.Refused(reason=f"{host}, {self._directory}/glusterfs.pem: {error}; {mend}") from error
        return left_days if authority.split() == self._authority.pem.split() else None

    def _on(self, host: str, script: str, *words: str) -> str:
        answer = self._machines.run(host, ["sh", "-c", script, "sh", self._directory, *words])
        if answer.code == KILLED:
            raise contract.Unreachable(reason=f"{host} took too long to say what certificate it has")
        if answer.code:
            said = " ".join((answer.err or answer.out).split())[-200:]
            raise contract.Refused(reason=f"no certificate can be put on {host}, in {self._directory}: {said}")
        return answer.out


def host_of(node: heketi.Node) -> str:
    """Where a node is logged in to. Raises `contract.Refused` for one that Heketi knows no host name of."""
    for host in node.hostnames.manage:
        return host
    raise contract.Refused(reason=f"Heketi knows no host name of the node {node.id}")
