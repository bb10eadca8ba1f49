# SPDX-License-Identifier: Apache-2.0
"""What lies in the directories of the local driver's share servers, and of NFS servers."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from abaca.drivers.exports.bus import Bus
from lab import processes


@contextlib.contextmanager
def bus(daemon_directory) -> Iterator[Bus]:
    """The message bus of an NFS server."""
    written = (daemon_directory / "bus.conf").read_text()
    made = Bus(Path(re.search("unix:path=(.*)</listen>", written)[1]))
    try:
        yield made
    finally:
        made.close()


def known_as(directory):
    """The id of the share server in a directory; None for one that was given up, or is none."""
    written = directory / "server.json"
    said = json.loads(written.read_text())["known_as"] if written.exists() else ""
    return (directory.name if said is None else said) or None


def running(places):
    """The directories, by id, of the share servers that have an owner and a network."""
    found = {known_as(one.parent): one.parent for one in places.glob("*/netns")}
    return {id: place for id, place in found.items() if id is not None}


def addresses(places):
    """The addresses of those, by id, as their networks have them."""
    found = {}
    for id, place in running(places).items():
        look = ["nsenter", f"--net={place}/netns", "ip", "-j", "address", "show", "scope", "global"]
        ends = [link for link in json.loads(processes.command(look)) if link]
        found[id] = [one["local"] for link in ends for one in link["addr_info"] if one]
    return found


def directory_of(places, id):
    """The directory of the share server with that id, or where a new one would have it."""
    return next((one for one in places.glob("*") if known_as(one) == id), places / id)
