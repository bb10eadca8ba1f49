# SPDX-License-Identifier: Apache-2.0
"""Names of volumes, and the common names of certificates: what gluster would take for something else is no name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from abaca.drivers import contract

VOLUME = "abaca_"
NODE = "abaca-node-"
NFS = "abaca-nfs"
"""The common name of the certificate by which NFS-Ganesha mounts the volumes of NFS shares, and no others."""
MARK = "user.abaca.instance"
NOBODY = "none"
"""The mark of a volume that was given up; gluster cannot take back an option that it does not know."""
RETIRED = "deleted"
"""The mark of a volume that is kept for its snapshots alone, when its share was deleted."""
SNAPSHOT = "abaca_snapshot_"
COPY = "user.abaca.copy"
"""The mark of a volume that gets, or got, its content from a snapshot (copying.py)."""
REVERT = "user.abaca.revert"
"""The mark of a volume that goes, or went, back to a snapshot (reverting.py): how far it is, `@`, and which."""
CLOSING, GOING = "closing", "going"
"""How far a volume is that nobody but its nodes reaches, since it goes back to a snapshot."""
ROOT = "user.abaca.root"
"""Mode, `@` and owner of the volume's topmost directory, as long as it gets more bricks (root_directory.py)."""
LIMIT, LATER, LIMITED = "user.abaca.limit", "later", "set"
"""Whether a volume is yet to get its limit, before the first client is let in, or has it; one without the mark has."""
ALLOW = "auth.ssl-allow"
SSL = ("client.ssl", "server.ssl")
OPTIONS_SPEC = "glusterfs:volume_options"
# auth.ssl-allow is a list with commas or blanks, and each part of it a pattern: `a*` would let in `alice` too.
_COMMON_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:+=/-]{0,63}")
_VOLUME = re.compile(r"[A-Za-z0-9_-]{1,255}")
MOST_ALLOWED = 4000
"""So many characters may `auth.ssl-allow` have: of 4,077 the glusterd of all nodes dies, of its buffer's 4,093."""
# Gluster finds the rest of a name that has no dot: `ssl-allow` is auth.ssl-allow.
_OPTION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\.[a-z0-9.-]{1,63}")
_VALUE = re.compile(r"[A-Za-z0-9._:/%+-]{1,64}")
# What keeps a volume sealed, counted and found again is not for share types.
_OURS = ("auth.", "client.ssl", "server.ssl", "ssl.", "user.abaca.", "features.", "nfs.", "transport.", "config.")


def volume_of(instance_id: str) -> str:
    """What the volume of an instance is called. Raises `contract.Refused` for an id that can be no name."""
    name = f"{VOLUME}{instance_id}"
    if not _VOLUME.fullmatch(name):
        raise contract.Refused(reason=f"{instance_id!r} can be no part of a volume's name")
    return name


def snapshot_of(snapshot_id: str) -> str:
    """What gluster calls a snapshot. Raises `contract.Refused` for an id that can be no name."""
    name = f"{SNAPSHOT}{snapshot_id}"
    if not _VOLUME.fullmatch(name):
        raise contract.Refused(reason=f"{snapshot_id!r} can be no part of a snapshot's name")
    return name


def instance_of(volume: str) -> str | None:
    """The id of the instance whose volume is called so; None for a name that Abaca has not given."""
    return volume[len(VOLUME) :] if volume.startswith(VOLUME) and _VOLUME.fullmatch(volume) else None


def volumes_in(exports: Iterable[contract.Export]) -> list[str]:
    """The volumes that export locations such as `host:/volume` name, each once."""
    found = (export.path.rpartition(":/")[2] for export in exports)
    return list(dict.fromkeys(name for name in found if _VOLUME.fullmatch(name)))


def volumes_of(instance: contract.ShareInstance) -> list[str]:
    """What the volume of an instance may be called: by its id, or, of one that was taken over, as it is mounted."""
    return list(dict.fromkeys([volume_of(instance.id), *volumes_in(instance.exports)]))


def node(node_id: str) -> str:
    """The common name of a node's certificate."""
    return f"{NODE}{node_id}"


def problem_of_client(name: str) -> str:
    """Why no client's certificate can be called so; empty when one can."""
    if not _COMMON_NAME.fullmatch(name):
        return (
            "a certificate's common name has 1 to 64 letters, digits and . _ @ : + = / -, and begins with a letter or "
            "digit: GlusterFS would take others for a list or a pattern"
        )
    if name.lower().startswith(NODE):
        return f"names that begin with {NODE} are those of the nodes"
    if name.lower() == NFS:
        return f"{NFS} is the name of the NFS server"
    return ""


def problem_of_rule(rule: contract.AccessRule) -> str:
    """Why the rule cannot be honoured; empty when it can."""
    if rule.type != "cert":
        return "GlusterFS knows its clients by certificates: use access type cert with a common name"
    if rule.level != "rw":
        return "GlusterFS cannot keep a certificate from writing: only the level rw can be had"
    return problem_of_client(rule.to)


def of_rules(rules: Sequence[contract.AccessRule]) -> list[str]:
    """The names that rules let in, in their order; those that cannot be honoured are left out."""
    return [rule.to for rule in rules if not problem_of_rule(rule)]


def allow(nodes: Iterable[str], clients: Iterable[str]) -> str:
    """The value of `auth.ssl-allow`; the nodes stand among themselves, or healing would break.

    Raises `contract.Refused` for more than gluster bears.
    """
    found = ",".join([*sorted(map(node, nodes)), *sorted(set(clients))])
    if len(found) > MOST_ALLOWED:
        reason = f"GlusterFS keeps {MOST_ALLOWED} characters of names for a volume: take access rules, or nodes, away"
        raise contract.Refused(reason=reason)
    return found


def fitting(nodes: Iterable[str], clients: Iterable[str]) -> set[str]:
    """The first of the clients, as many as the list has room for."""
    room = MOST_ALLOWED - len(allow(nodes, ()))
    found: set[str] = set()
    for name in dict.fromkeys(clients):
        room -= len(name) + 1
        if room < 0:
            break
        found.add(name)
    return found


def clients_in(value: str) -> set[str]:
    """The clients that a value of `auth.ssl-allow` lets in."""
    return {name for name in value.split(",") if name and not name.startswith(NODE)}


def options_of(extra_specs: Mapping[str, str]) -> Sequence[str]:
    """Gluster's options that a share type asks for, as `name value`. Raises `contract.Refused`."""
    found = []
    for part in filter(None, (part.strip() for part in extra_specs.get(OPTIONS_SPEC, "").split(","))):
        name, _, value = part.partition(" ")
        if not _OPTION.fullmatch(name) or not _VALUE.fullmatch(value.strip()):
            reason = f"{OPTIONS_SPEC}: {part!r} is no option and value such as `performance.cache-size 64MB`"
            raise contract.Refused(reason=reason)
        if name.startswith(_OURS):
            raise contract.Refused(reason=f"{OPTIONS_SPEC}: {name} is what keeps volumes sealed and counted")
        found.append(f"{name} {value.strip()}")
    return found


def goes_back(options: Mapping[str, str]) -> bool:
    """Whether the volume with these options is closed, since it goes back to a snapshot."""
    return options.get(REVERT, "").partition("@")[0] in {CLOSING, GOING}


def read_options(given: Iterable[str]) -> Mapping[str, str]:
    """Options of a volume as they were ordered, each text one or more of `name value`, by their names."""
    words = " ".join(given).split()
    return dict(zip(words[::2], words[1::2], strict=False))
