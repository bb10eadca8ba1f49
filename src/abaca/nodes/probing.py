# SPDX-License-Identifier: Apache-2.0
"""Each step of the way to a machine, and from there to a storage, tried by itself: what works and what does not."""

from __future__ import annotations

import asyncio

from abaca.domain.attachments.servers import Login
from abaca.nodes import shell
from abaca.nodes.contract import Finding, HostKeyMismatch, NodeError, NotAllowed
from abaca.nodes.machine import Script
from abaca.nodes.shell import Limits, Shell


async def probe(login: Login, limits: Limits, program: str, address: str, port: int) -> list[Finding]:
    """What each step shows, up to the first that fails; those that need the machine without an address are left out."""
    try:
        await asyncio.to_thread(shell.read_key, login)
    except NotAllowed as error:
        return [Finding("key", False, error.message)]
    found = [Finding("key", True, login.key)]
    try:
        async with shell.connected(login, limits) as connection:
            found += entered(login)
            found += await _inside(connection, limits, program, address, port)
    except NodeError as error:
        return [*found, *refused(login, error, has_entered=len(found) > 1)]
    return found


def entered(login: Login) -> list[Finding]:
    """What is shown by having logged in."""
    return [
        Finding("ssh", True, f"{login.host} port {login.port}"),
        Finding("host key", True, login.host_key.partition(" ")[0]),
        Finding("login", True, login.user),
    ]


def refused(login: Login, error: NodeError, *, has_entered: bool) -> list[Finding]:
    """What is shown by an error: how far it came, and what stopped it."""
    if has_entered:
        return [Finding("sudo" if isinstance(error, NotAllowed) else "shell", False, error.message)]
    ssh, host_key, _ = entered(login)
    if isinstance(error, HostKeyMismatch):
        return [ssh, Finding("host key", False, error.message)]
    if isinstance(error, NotAllowed):
        return [ssh, host_key, Finding("login", False, error.message)]
    return [Finding("ssh", False, error.message)]


async def _inside(connection: Shell, limits: Limits, program: str, address: str, port: int) -> list[Finding]:
    words = {"action": "probe", "program": program, "address": address, "port": str(port)}
    lines = await Script(connection, "probe.sh", limits).act(words)
    said = {key: value for key, _, value in (line.partition(" ") for line in lines)}
    found = [
        Finding("sudo", "root" in said, "root" if "root" in said else "commands do not run as root"),
        Finding("client", "program" in said or None, program if "program" in said else f"{program} is not there yet"),
    ]
    if not address:
        return found
    is_known = "route" in said or "no_route" in said
    way = said.get("route", said.get("no_route", "the machine has no `ip` to ask"))
    found.append(Finding("route", "route" in said if is_known else None, way))
    return [*found, Finding("port", *_port(said.get("port", ""), f"{address} port {port}"))]


def _port(said: str, where: str) -> tuple[bool | None, str]:
    if said == "open":
        return True, where
    if said == "silent":
        return False, f"{where} does not answer: a firewall, or a server that is away"
    if said:
        return False, f"{where} refuses: {said.partition(' ')[2]}"
    return None, f"{where}: the machine has neither bash nor nc to try it with"
