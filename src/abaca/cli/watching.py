# SPDX-License-Identifier: Apache-2.0
"""How a command follows an operation to its end, and shows each step on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

LOOK_AGAIN_S = 0.2
ENDED = ("done", "failed", "cancelled")


def to_the_end(client: Client, operation_id: str) -> Answer:
    """The operation once it has ended; a line is shown whenever it gets on."""
    told = ""
    while True:
        operation: Answer = client.get(f"/operations/{operation_id}")["operation"]
        line = _line(operation)
        if line != told:
            click.echo(line)
            told = line
        if operation["state"] in ENDED:
            return operation
        time.sleep(LOOK_AGAIN_S)


def _line(operation: Answer) -> str:
    progress, state = operation["progress"], str(operation["state"])
    parts = [state if state in ENDED or not operation["step"] else f"{state} at {operation['step']}"]
    if progress:
        parts.append(f"{progress['done']} of {progress['total']}")
    if operation["waits_for"] and state != "running":
        parts.append(f"waits for {operation['waits_for']}")
    if operation["error_text"] and state != "done":
        parts.append(operation["error_text"])
    return ": ".join(parts)
