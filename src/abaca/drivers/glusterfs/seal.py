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
from typing import NamedTuple

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
FORMER = ".abaca.former"
"""The certificate by which volumes may still serve, since they were not started anew after it was renewed."""
# Each is a fixed text; what differs comes as words: $1 is the directory. Nobody looks while somebody puts files there:
# a key that has come before its certificate would be taken for a key of nobody's.
_LOOK = f"""cd "$1" && exec 9< . && flock -s 9 || exit 1
for file in glusterfs.pem glusterfs.ca {FORMER}; do cat "$file" 2>/dev/null; echo {_PART}; done
[ ! -e glusterfs.key ] || openssl pkey -in glusterfs.key -pubout 2>/dev/null || true"""
# Several workers may see to one node in the same second: a key that is not in use yet serves them all, whoever comes
# first puts it in its place, and what is signed for another key than is there by then is left.
_ALONE = """cd "$1" && umask 077 && exec 9< . && flock 9 || exit 1
"""
_REQUEST = f"""{_ALONE}openssl pkey -in .abaca.key -noout 2> /dev/null ||
    {{ openssl genrsa -out .abaca.key.new 2048 && mv -f .abaca.key.new .abaca.key; }} || exit 1
exec openssl req -new -key .abaca.key -subj "/CN=$2"
"""
# The place where OpenSSL looks by itself, and GlusterFS with it, is another one on Debian.
_KEEP = f"""{_ALONE}set -e
printf '%s' "$2" > .abaca.pem
printf '%s' "$3" > .abaca.ca
chmod 644 .abaca.pem .abaca.ca
certified=$(openssl x509 -in .abaca.pem -noout -pubkey)
is_certified() {{ [ "$(openssl pkey -in "$1" -pubout 2> /dev/null)" = "$certified" ]; }}
is_certified .abaca.key || is_certified glusterfs.key || {{ rm .abaca.pem .abaca.ca; exit 0; }}
[ -z "$4" ] || [ -e {FORMER} ] || {{ cp -f glusterfs.pem {FORMER}.new && mv -f {FORMER}.new {FORMER}; }}
case "$(cat glusterfs.ca 2> /dev/null)
" in  # other authorities may be there too
*"$3"*) rm .abaca.ca ;;
*) mv -f .abaca.ca glusterfs.ca ;;
esac
! is_certified .abaca.key || mv -f .abaca.key glusterfs.key
mv -f .abaca.pem glusterfs.pem
other=$(openssl version -d | sed 's/^OPENSSLDIR: "\\(.*\\)"$/\\1/')
[ "$1" = /etc/ssl ] && [ -d "$other" ] && ! [ "$other" -ef "$1" ] || exit 0
for file in pem key ca; do
    [ -e "$other/glusterfs.$file" ] || ln -s "$1/glusterfs.$file" "$other/glusterfs.$file"
done"""
_SETTLE = f'rm -f "$1/{FORMER}"'
_RESTART = "`abaca certificate renew --restart`"


class Left(NamedTuple):
    """For how many days a node's certificate is good, and the one by which volumes there may still serve."""

    own: float | None
    former: float | None

    @property
    def first(self) -> float | None:
        """Until the first of them ends; None without any."""
        return min((one for one in self if one is not None), default=None)


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
        certificate of another authority or name, a key of nobody's, or other authorities.
        """
        with self._one:
            due = [node for node in nodes if time.monotonic() > self._seen_s.get(node.id, -KNOWN_S) + KNOWN_S]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._close, due))

    def first_end(self, nodes: Iterable[heketi.Node]) -> datetime.datetime | None:
        """When the first of the nodes' certificates ends, as far as that is known; they are looked at now and then.

        A node that has none, since it was added or made anew, gets one: Heketi may move bricks there unasked. Whose end
        is near is told to the operator. A node that cannot be looked at has the end that it had.
        """
        asked = list(nodes)
        due = [node for node in asked if time.monotonic() > self._looked_s.get(node.id, -KNOWN_S) + KNOWN_S]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._note_end, due))
        return min((self._ends[node.id] for node in asked if node.id in self._ends), default=None)

    def _note_end(self, node: heketi.Node) -> None:
        self._looked_s[node.id] = time.monotonic()
        try:
            left = self.left(node)
            if left.own is None:
                self._seen_s.pop(node.id, None)
                self.close([node])
                return
        except errors.BackendError as error:
            log.warning("node=%s its certificate cannot be looked at: %s", node.id, error)
            return
        left_days = left.first
        self._note(node, left_days)
        if left_days is not None and left_days < self._authority.renew_days:
            mend = f"{_RESTART} brings another one to all nodes"
            log.warning("node=%s its certificate %s: %s", host_of(node), when(left_days), mend)

    def _note(self, node: heketi.Node, left_days: float | None) -> None:
        if left_days is None:
            self._ends.pop(node.id, None)
        else:
            self._ends[node.id] = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=left_days)

    def _close(self, node: heketi.Node) -> None:
        left = self.left(node)
        if left.own is None or left.own < self._authority.renew_days:
            self._renew(node, left)
        else:
            self._note(node, left.first)
        if left.own is not None and left.own < self._authority.renew_days:
            # Whatever runs has read the old one, and goes on with it.
            mend = f"{_RESTART} starts the volumes anew, without which they serve by it"
            log.warning("node=%s the old certificate %s: %s", host_of(node), when(left.own), mend)
        self._seen_s[node.id] = time.monotonic()

    def renew(self, node: heketi.Node) -> None:
        """A new key and a new certificate, whatever it has. What runs there goes on with what it has read.

        So the former one is kept there, until `settle`. Raises as `close` does.
        """
        self._renew(node, self.left(node))

    def _renew(self, node: heketi.Node, seen: Left) -> None:
        host, name = host_of(node), names.node(node.id)
        had = "" if seen.own is None else "yes"
        request = self._on(host, _REQUEST, name)
        self._on(host, _KEEP, self._authority.sign(request, name), self._authority.pem, had)
        self._note(node, self.left(node).first)
        log.info("node=%s has a new certificate %s", host, name)

    def settle(self, nodes: Iterable[heketi.Node]) -> None:
        """All that runs on these nodes was started since they have their certificates. Raises as `close` does."""
        for node in nodes:
            self._on(host_of(node), _SETTLE)
            self._note(node, self.left(node).first)

    def ended(self, nodes: Iterable[heketi.Node]) -> str:
        """Which of the nodes have certificates that have ended, or serve by such, and the mend; empty for none."""
        found = []
        for node in nodes:
            try:
                left_days = self.left(node).first
            except errors.BackendError:
                continue  # what is asked is what is known
            if left_days is not None and left_days <= 0:
                found.append(f"the certificate of the node {host_of(node)} {when(left_days)}")
        return f"{', '.join(found)}: {_RESTART} mends it" if found else ""

    def left(self, node: heketi.Node) -> Left:
        """For how many days the node's certificates are good. Raises as `close` does, for what is not ours too."""
        host = host_of(node)
        pem, authority, former, key = (part.strip() for part in self._on(host, _LOOK).split(_PART))
        try:
            left_days = self._authority.days_left(pem, names.node(node.id), key)
        except Foreign as error:
            mend = "move it away there, or give its authority to this back end"
            raise self._strange(host, "glusterfs.pem", str(error), mend) from error
        is_known, whose = self._authority.is_in(authority), self._authority.name_in(pem)
        if whose is not None and not whose.startswith(names.NODE):
            raise self._strange(host, "glusterfs.pem", f"it has a certificate of CN={whose}", "move it away there")
        if whose is None and key and not is_known:  # where it is known, somebody was killed who put the key there
            raise self._strange(host, "glusterfs.key", "it has a key of nobody's", "move it away there")
        if is_known is False:
            mend = "add what `abaca certificate authority` says, or move it away there"
            raise self._strange(host, "glusterfs.ca", "it has other authorities", mend)
        return Left(left_days if is_known else None, self._authority.left_days(former))

    def _strange(self, host: str, file: str, what: str, mend: str) -> contract.Refused:
        return contract.Refused(reason=f"{host}, {self._directory}/{file}: {what}; {mend}")

    def _on(self, host: str, script: str, *words: str) -> str:
        answer = self._machines.run(host, ["sh", "-c", script, "sh", self._directory, *words])
        if answer.code == KILLED:
            raise contract.Unreachable(reason=f"{host} took too long to say what certificate it has")
        if answer.code:
            said = " ".join((answer.err or answer.out).split())[-200:]
            raise contract.Refused(reason=f"no certificate can be put on {host}, in {self._directory}: {said}")
        return answer.out


def when(left_days: float) -> str:
    """When a certificate ends, in words that follow it."""
    return f"ends in {left_days:.0f} days" if left_days > 0 else f"ended {-left_days:.0f} days ago"


def host_of(node: heketi.Node) -> str:
    """Where a node is logged in to. Raises `contract.Refused` for one that Heketi knows no host name of."""
    for host in node.hostnames.manage:
        return host
    raise contract.Refused(reason=f"Heketi knows no host name of the node {node.id}")


def storage_host_of(node: heketi.Node) -> str:
    """Where clients reach a node."""
    return next(iter(node.hostnames.storage), "") or host_of(node)


def address_of(node: heketi.Node) -> str:
    """Where the node itself is mounted from."""
    own = storage_host_of(node)
    return f"[{own}]" if ":" in own else own
