# SPDX-License-Identifier: Apache-2.0
"""NFS-Ganesha over its private D-Bus: one connection, one call at a time."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, prep_socket

from abaca.drivers import contract

NAME = "org.ganesha.nfsd"
_EXPORTS = DBusAddress("/org/ganesha/nfsd/ExportMgr", bus_name=NAME, interface="org.ganesha.nfsd.exportmgr")
_DAEMON = DBusAddress("/org/freedesktop/DBus", bus_name="org.freedesktop.DBus", interface="org.freedesktop.DBus")
_NOBODY = frozenset(
    {
        "org.freedesktop.DBus.Error.NameHasNoOwner",
        "org.freedesktop.DBus.Error.ServiceUnknown",
        "org.freedesktop.DBus.Error.NoReply",
        "org.freedesktop.DBus.Error.Disconnected",
    }
)
_MAY_WRITE = 0x140  # Of the export's permission bits: data and metadata may be written.


class Dead(Exception):
    """Nobody answers: the daemon or its bus is gone."""


class Shown(NamedTuple):
    """An export as the daemon has it; clients in order, as network and level."""

    path: str
    clients: list[tuple[str, str]]


class Bus:
    """Raises `Dead` when nobody is there, `contract.Unreachable` when somebody is but does not answer in time,
    `contract.Refused` with what was said.
    """

    def __init__(self, socket: Path, timeout_s: float = 30.0) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._connection: DBusConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def owner_pid(self) -> int | None:
        """The process that answers as NFS-Ganesha; None when there is none, or no bus."""
        try:
            return int(self._call(_DAEMON, "GetConnectionUnixProcessID", "s", NAME)[0])
        except (Dead, contract.Refused):
            return None

    def update(self, file: Path, export_id: int) -> None:
        """Make the export what the file says, live; one that is not there is added."""
        self._call(_EXPORTS, "UpdateExport", "ss", str(file), f"EXPORT(Export_Id={export_id})")

    def remove(self, export_id: int) -> None:
        """Clients lose it at once. Not there is success."""
        try:
            self._call(_EXPORTS, "RemoveExport", "q", export_id)
        except contract.Refused:
            if self.show(export_id) is not None:
                raise

    def paths(self) -> dict[int, str]:
        """The path of every export, by export id."""
        _, exports = self._call(_EXPORTS, "ShowExports")
        return {int(entry[0]): str(entry[1]) for entry in exports}

    def show(self, export_id: int) -> Shown | None:
        """The export with its clients in order, None when it is not there."""
        try:
            _, path, _, _, clients = self._call(_EXPORTS, "DisplayExport", "q", export_id)
        except contract.Refused:
            return None
        return Shown(str(path), [(entry[0], "rw" if entry[8] & _MAY_WRITE else "ro") for entry in clients])

    def _call(self, address: DBusAddress, method: str, signature: str | None = None, *body: Any) -> tuple[Any, ...]:
        try:
            if self._connection is None:
                self._connection = _connected(self._socket, self._timeout_s)
            call = new_method_call(address, method, signature, body)
            reply = self._connection.send_and_get_reply(call, timeout=self._timeout_s)
        except TimeoutError as error:
            self.close()
            raise contract.Unreachable(
                reason=f"NFS-Ganesha did not answer {method} in {self._timeout_s:g} s"
            ) from error
        except (OSError, EOFError) as error:
            self.close()
            raise Dead(str(error)) from error
        if reply.header.message_type is MessageType.error:
            name = str(reply.header.fields.get(HeaderFields.error_name, ""))
            said = " ".join(str(reply.body[0] if reply.body else name).split())
            if name in _NOBODY:
                raise Dead(said)
            raise contract.Refused(reason=f"NFS-Ganesha refuses {method}: {said[:500]}")
        return tuple(reply.body)


class _Connection(DBusConnection):  # type: ignore[misc]  # the library has no types
    """One whose greeting is waited for as long as the answer to any call, where the library's own has no end."""

    def __init__(self, socket: socket.socket, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().__init__(socket)

    def send_and_get_reply(self, message: Message, *, timeout: float | None = None) -> Message:
        return super().send_and_get_reply(message, timeout=self._timeout_s if timeout is None else timeout)


def _connected(path: Path, timeout_s: float) -> DBusConnection:
    """As `open_dbus_connection`, which leaves the socket open when the bus ends before it has said hello."""
    prepared = prep_socket(str(path), timeout=timeout_s)
    try:
        return _Connection(prepared, timeout_s)
    except BaseException:
        prepared.close()
        raise
