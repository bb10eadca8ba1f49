# SPDX-License-Identifier: Apache-2.0
"""Whether a port can be listened on, found out before anything is started for it."""

from __future__ import annotations

import errno
import os
import socket

from abaca import errors


def refuse_unless_free(address: str, port: int) -> None:
    """Raises `ConfigError` with the mend, or `Unavailable` for an address that this host may still get."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise _refusal(address, port, error) from None


def _refusal(address: str, port: int, error: OSError) -> errors.AbacaError:
    problem = f"{address} port {port} cannot be listened on: {error.strerror}"
    if error.errno == errno.EADDRNOTAVAIL:  # it may come, as networks do; who restarts services tries again
        return errors.Unavailable(f"{problem}. Give this host the address, or set osapi_share_listen")
    if isinstance(error, socket.gaierror):
        return errors.ConfigError(problem=problem, mend="Set osapi_share_listen to an address of this host")
    if error.errno == errno.EACCES:
        mend = f"Set osapi_share_listen_port above 1023, or let user {os.geteuid()} have CAP_NET_BIND_SERVICE"
        return errors.ConfigError(problem=problem, mend=mend)
    mend = "Stop what listens there, or set osapi_share_listen and osapi_share_listen_port"
    return errors.ConfigError(problem=problem, mend=mend)


def is_listened_on(address: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - compared, not bound
    try:
        socket.create_connection((target, port), timeout=1).close()
    except OSError:
        return False
    return True
