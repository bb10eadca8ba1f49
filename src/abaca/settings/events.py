# SPDX-License-Identifier: Apache-2.0
"""Options of who is told what happens: the log, webhooks, a message bus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from abaca.settings.options import LONG_S, Names, Section, said, secret


class Events(Section, frozen=True):
    """Whom to tell what happens to shares; the same on all hosts. Nobody is told, and nothing written, unless set."""

    log: Annotated[bool, said("Write each event into the worker's log.")] = False
    webhooks: Annotated[Names, said("Receivers of signed HTTP requests; each is a section `[webhook_<name>]`.")] = ()
    keep_s: Annotated[
        float,
        said("Seconds that an event is kept; what a target does not have by then is given up.", ge=60, le=LONG_S),
    ] = 604800
    longest_pause_s: Annotated[
        float, said("Longest pause, in seconds, between tries to reach a target that is away.", ge=0.05, le=86400)
    ] = 300


class OsloMessagingNotifications(Section, frozen=True):
    """Events on the message bus of an OpenStack cloud, as Manila would send them; needs `abaca[messaging]`."""

    driver: Annotated[
        Literal["", "messagingv2"], said("`messagingv2`: send them, in that version of the format. Empty: do not.")
    ] = ""
    transport_url: Annotated[
        str | None, secret("Where the bus is: `rabbit://user:password@host:5672/`; its query takes driver options.")
    ] = None
    topics: Annotated[Names, said("Topics; `.info` or `.error` follows in the name of the queue.")] = ("notifications",)
    event_types: Annotated[Names, said("Events that are sent, with `*` for anything.")] = ("*",)


class Webhook(Section, frozen=True):
    """One section for each name in `[events] webhooks`."""

    name: Annotated[str, said("", extra={"internal": True})]
    url: Annotated[
        str,
        said(
            "Where to POST; `http` or `https`, without user and password. Never shown: it may hold a token.",
            pattern=r"^https?://[^\s/?#@]+([/?][^\s#]*)?$",
            extra={"secret": True},
        ),
    ]
    secret_file: Annotated[Path, said("File with the secret that signs the requests: 16 characters or more.")]
    event_types: Annotated[Names, said("Events that are sent, such as `share.create.*, *.error`.")] = ("*",)
    timeout_s: Annotated[float, said("Seconds to connect, and then to be answered.", ge=0.1, le=300)] = 10
    concurrency: Annotated[
        int, said("Requests at once; those of one resource come one after another.", ge=1, le=64)
    ] = 4
    ca_file: Annotated[Path | None, said("Certificates that prove the receiver. Unset: those known to Python.")] = None
