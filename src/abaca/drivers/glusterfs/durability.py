# SPDX-License-Identifier: Apache-2.0
"""How a volume survives the loss of nodes: words of share types made into what Heketi is told."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abaca.drivers import contract
from abaca.drivers.clients import heketi

SPEC = "glusterfs:durability"
_REPLICA = re.compile(r"replica ([23])")
_DISPERSE = re.compile(r"disperse (2\+1|4\+2|8\+3|8\+4)")


def read(text: str) -> heketi.Durability:
    """What the words mean. Raises ValueError."""
    words = " ".join(text.split())
    if words == "none":
        return heketi.Durability("none")
    if found := _REPLICA.fullmatch(words):
        return heketi.Durability("replicate", replicate=heketi.Copies(int(found[1])))
    if found := _DISPERSE.fullmatch(words):
        data, redundancy = found[1].split("+")
        return heketi.Durability("disperse", disperse=heketi.Parts(int(data), int(redundancy)))
    raise ValueError(
        f"{text!r} is no durability: it is replica 2 or 3, disperse 2+1, 4+2, 8+3 or 8+4, or none, which keeps one copy"
    )


def wanted(extra_specs: Mapping[str, str], default: str) -> heketi.Durability:
    """What a share type asks for, or the back end's own. Raises `contract.Refused` for words that mean nothing."""
    try:
        return read(extra_specs.get(SPEC, default))
    except ValueError as error:
        raise contract.Refused(reason=f"{SPEC}: {error}") from error


def nodes(kept: heketi.Durability) -> int:
    """On how many nodes a volume lies at least."""
    if kept.type == "replicate":
        return kept.replicate.replica or 2
    return kept.disperse.data + kept.disperse.redundancy if kept.type == "disperse" else 1


def least_gib(kept: heketi.Durability) -> int:
    """The smallest volume, and the least that one grows by, in GiB: Heketi makes no brick of less than 1 GiB."""
    return max(1, kept.disperse.data) if kept.type == "disperse" else 1


def factor(kept: heketi.Durability) -> float:
    """How many GiB of devices a GiB of a volume takes."""
    if kept.type == "replicate":
        return kept.replicate.replica or 2.0
    if kept.type == "disperse":
        return (kept.disperse.data + kept.disperse.redundancy) / kept.disperse.data if kept.disperse.data else 1.0
    return 1.0
