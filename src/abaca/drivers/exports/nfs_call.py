# SPDX-License-Identifier: Apache-2.0
"""Whether an NFS server takes calls, found out as clients would: by that which does nothing (RFC 5531, RFC 7530)."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from pathlib import Path

from abaca import errors
from abaca.drivers.clients import namespaces

_CALL, _REPLY, _RPC, _NFS, _VERSION, _NULL = 0, 1, 2, 100003, 4, 0
_NOBODY = (0, 0, 0, 0)  # neither credentials nor a verifier, each a kind and a length
_LAST_FRAGMENT = 1 << 31
_HEAD = struct.Struct(">III")  # the record's mark, the call's number, whether it is a reply


def answers(port: int, within_s: float, netns: str = "") -> bool | None:
    """Whether the server at this port of loopback answers in that time; `netns` is the path of its network namespace.

    None when that cannot be said: nobody listens there, no network leads there, or it hangs up.
    """
    with contextlib.suppress(errors.BackendError, OSError):
        if netns:
            return namespaces.inside(Path(netns), lambda: _ask(port, within_s))
        return _ask(port, within_s)
    return None


def _ask(port: int, within_s: float) -> bool | None:
    end, number = time.monotonic() + within_s, secrets.randbits(32)
    call = struct.pack(">10I", number, _CALL, _RPC, _NFS, _VERSION, _NULL, *_NOBODY)
    seen = b""
    try:
        with socket.create_connection(("127.0.0.1", port), within_s) as connection:
            connection.sendall(struct.pack(">I", _LAST_FRAGMENT | len(call)) + call)
            while len(seen) < _HEAD.size:
                connection.settimeout(max(end - time.monotonic(), 0.001))
                part = connection.recv(_HEAD.size - len(seen))
                if not part:
                    return None
                seen += part
    except TimeoutError:
        return False
    except OSError:
        return None
    return _HEAD.unpack(seen)[1:] == (number, _REPLY) or None
