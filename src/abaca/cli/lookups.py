# SPDX-License-Identifier: Apache-2.0
"""The ids of what a command line calls by a name, or by the beginning of an id."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.cli.client import AN_ID, MOST_MEANT

if TYPE_CHECKING:
    from abaca.cli.client import Client

COMPUTE = "/compute/v2.1/servers"


def share_id(client: Client, said: str) -> str:
    """The id of a share. Raises `NotFound`, and `Conflict` where several are meant."""
    return client.id_of("/shares", "Share", said)


def server_id(client: Client, said: str) -> str:
    """The id of a server, wherever servers come from. Raises as `share_id` does."""
    if AN_ID.fullmatch(said):
        return said
    called = client.each(COMPUTE, MOST_MEANT, name=f"^{re.escape(said)}$", all_tenants=client.sees_all or None)
    # a Nova compares without capitals
    ids = [str(one["id"]) for one in called if one["name"] == said]
    if len(ids) > 1:
        raise errors.Conflict(f"Several servers are called {said}; say which one by its id: {', '.join(ids)}")
    return ids[0] if ids else client.id_of("/servers", "Server", said, named=False)


def registered_server_id(client: Client, said: str) -> str:
    """The id of a server that was registered here, by its name. Raises as `share_id` does."""
    return client.id_of("/servers", "Server", said)


def resource_id(client: Client, said: str) -> str:
    """The id of what an operation may be about: a share, an attachment or a server. Raises as `share_id` does."""
    with contextlib.suppress(errors.NotFound):
        return share_id(client, said)
    with contextlib.suppress(errors.NotFound):
        return client.id_of("/attachments", "Attachment", said, named=False)
    try:
        return server_id(client, said)
    except errors.NotFound:
        message = f"No share, attachment or server is called {said}; whatever else it is, say it by its whole id."
        raise errors.NotFound(message) from None


def host(client: Client, said: str) -> str:
    """The host@backend that is meant: by itself, or by the back end's or the host's name where one alone has that.

    A whole one is taken as it is. Raises `NotFound`, and `Conflict` where several are meant.
    """
    if "@" in said:
        return said
    known = [str(one["host"]) for one in client.each("/backends")]
    meant = [one for one in known if said in one.split("@")]
    if len(meant) > 1:
        raise errors.Conflict(f"{said} could be any of {', '.join(meant[:MOST_MEANT])}; say which.")
    if not meant:
        raise errors.NotFound(
            f"No back end and no host is called {said}; abaca backend list shows those that there are."
        )
    return meant[0]


def server_ids(client: Client, said: Sequence[str]) -> tuple[list[str], list[str]]:
    """The ids of servers, each once, and for those that there are not a sentence each."""
    found: dict[str, None] = {}
    missing = []
    for one in said:
        try:
            found[server_id(client, one)] = None
        except errors.NotFound as error:
            missing.append(error.message)
    return list(found), missing
