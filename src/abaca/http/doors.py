# SPDX-License-Identifier: Apache-2.0
"""What a door is: a set of routes below a prefix, with versions of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import falcon

from abaca import errors
from abaca.http import faults, routing


class Asked(NamedTuple):
    """The version that a request is served at (the number after "2."), and whether it wants experimental parts."""

    version: int = 0
    experimental: bool = False


class Page(NamedTuple):
    """A public document that is no value to be written as JSON, or has been written already."""

    content: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Door:
    """`negotiate` finds the version of a request and says so in the answer's headers; `document` gives what the prefix
    itself answers, by the address of the service. With `names_projects` paths may begin with the caller's project.
    `public` holds documents for which nobody need be known, by their whole path; they may lie beside the door.
    `greet` says in the headers what every answer of this door says, refusals included. With `one_error_form` all
    refusals look alike, and a wrong method is told the right ones; else they are those of OpenStack's services, who
    say 404 to it. `unserved` gives the sentence for a path below the prefix that clients know and that is not served,
    None for one that nobody knows; `unserved_actions` those of actions. `fault` makes the answer of an error, by the
    request's id and the challenge for strangers, where the door has a form of its own.
    """

    prefix: str
    table: routing.Table
    negotiate: Callable[[falcon.Request, falcon.Response], Asked]
    document: Callable[[str], Any]
    names_projects: bool = False
    public: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    greet: Callable[[falcon.Response], None] = lambda _response: None
    one_error_form: bool = False
    unserved: Callable[[str], str | None] = lambda _path: None
    unserved_actions: Mapping[str, str] = field(default_factory=dict)
    fault: Callable[[BaseException, str, str], faults.Fault] | None = None

    @property
    def form(self) -> Callable[[BaseException, str, str], faults.Fault] | None:
        """How this door says errors; None: as OpenStack's services do."""
        return self.fault or (faults.one_form if self.one_error_form else None)

    def no_action(self, name: str) -> errors.AbacaError:
        """What is said to an action that is not there: whether clients know it, and it is not served."""
        known = self.unserved_actions.get(name)
        return errors.Invalid(f"There is no such action: {name[:64]}") if known is None else errors.NotFound(known)

    def holds(self, path: str) -> bool:
        """Whether a path is behind this door."""
        return path.startswith(self.prefix) and path[len(self.prefix) : len(self.prefix) + 1] in ("", "/")
