# SPDX-License-Identifier: Apache-2.0
"""The port that the API listens on: taken before anything is started for it, and handed on to who answers there."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Collection

from abaca import errors

log = logging.getLogger(__name__)

# Where a listening socket is handed on, as systemd has it.
HANDED_ON = 3
# A client that takes in nothing of its answer, or is gone without a word, is let go after so many seconds.
DEAF_S = 60


def listen(address: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there: the one that systemd, or an `abaca run` before this, has handed on, or a new one.

    Raises `ConfigError` with the mend, or `Unavailable` for an address that this host may still get.
    """
    listening = _handed_on()
    if listening is not None and (found := listening.getsockname()[:2]) not in _meant(address, port):
        log.warning("the socket that was handed on listens at %s port %d, not at %s port %d", *found, address, port)
        listening.close()
        listening = None
    if listening is None:
        listening = _bound(address, port)
    # each connection inherits them
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAF_S * 1000)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAF_S)
    listening.listen(backlog)
    return listening


def _meant(address: str, port: int) -> Collection[tuple[str, int]]:
    """The addresses that one in the settings may stand for; all of IPv4 are among all of both families."""
    if address == "0.0.0.0":  # noqa: S104 - compared, not bound
        return [(address, port), ("::", port)]
    try:
        return [found[4][:2] for found in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)]  # type: ignore[misc]
    except OSError:
        return []  # whoever listens there is told


def _bound(address: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        raise _refusal(address, port, error) from None
    return listening


def hand_on(descriptor: int) -> None:
    """Leave a listening socket to the program that this process turns into, which finds it by `listen`."""
    os.dup2(descriptor, HANDED_ON)
    os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}


def _handed_on() -> socket.socket | None:
    of, many = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    if of != str(os.getpid()) or not many.isdecimal() or int(many) < 1:
        return None
    try:
        os.set_inheritable(HANDED_ON, False)
        return socket.socket(fileno=HANDED_ON)
    except OSError as error:
        log.warning("LISTEN_FDS says that a socket was handed on, and there is none: %s", error.strerror)
        return None


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
