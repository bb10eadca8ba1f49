# SPDX-License-Identifier: Apache-2.0
"""What NFS-Ganesha reads: its configuration and one EXPORT block a file, written from values and read back.

The first line of an export's file holds the values it was written from; NFS-Ganesha takes it for a comment.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from abaca.drivers.exports import clients
from abaca.drivers.exports.clients import Client

_MARK = "# abaca "

CONFIGURATION = """\
# Written by Abaca whenever it starts NFS-Ganesha; changes are lost.
NFS_CORE_PARAM {{
  Protocols = 4;
  NFS_Port = {port};
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Enable_UDP = false;
}}
NFSv4 {{
  Minor_Versions = {minor_versions};
  RecoveryBackend = fs;
  RecoveryRoot = "{directory}/recovery";
  Only_Numeric_Owners = true;
  Grace_Period = {grace_s};
  Lease_Lifetime = {grace_s};
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = None; Protocols = 4; Transports = TCP; SecType = sys; Squash = No_Root_Squash; }}
LOG {{ Default_Log_Level = EVENT; }}
%dir "{directory}/exports"
"""


_Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]


class GlusterVolume(msgspec.Struct, frozen=True):
    """A volume of GlusterFS, which NFS-Ganesha mounts by itself, told of it by the first of the `hosts`."""

    volume: _Word
    hosts: tuple[_Word, ...]
    log: Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_.-]+)+$")]


class ExportBlock(msgspec.Struct, frozen=True, kw_only=True):
    """An export: `name` is what it serves (`shares/<id>`), `pseudo` the path that clients mount.

    What lies at its path is a directory of this host, or a `volume`: that has no place here, and the path is a name.
    """

    name: str
    export_id: int
    path: str
    pseudo: str
    clients: tuple[Client, ...] = ()
    volume: GlusterVolume | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is what it serves, as far as this host can know."""
        return self.volume is not None or Path(self.path).is_dir()


class _Marked(msgspec.Struct, omit_defaults=True):
    name: str
    path: str
    pseudo: str
    clients: list[tuple[Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f.:]+/[0-9]+$")], Literal["rw", "ro"]]]
    volume: GlusterVolume | None = None


def configuration(directory: Path, *, port: int, grace_s: int, minor_versions: Sequence[int]) -> str:
    """The daemon's own file; it includes every export that is in the directory `exports`."""
    versions = ", ".join(map(str, minor_versions))
    return CONFIGURATION.format(directory=directory, port=port, grace_s=grace_s, minor_versions=versions)


def render(block: ExportBlock) -> str:
    """The file's text. Every value in it has been validated before it got here."""
    marked = _Marked(block.name, block.path, block.pseudo, list(block.clients), block.volume)
    return "\n".join(
        [
            _MARK + msgspec.json.encode(marked).decode(),
            "EXPORT {",
            f"  Export_Id = {block.export_id};",
            f'  Path = "{block.path}";',
            f'  Pseudo = "{block.pseudo}";',
            f"  Filesystem_Id = {_filesystem_id(block.name)};",
            "  Access_Type = None;",
            "  Protocols = 4;",
            "  Transports = TCP;",
            "  SecType = sys;",
            "  Squash = No_Root_Squash;",
            f"  FSAL {{ {_storage(block.volume)} }}",
            *_client_blocks(block.clients),
            "}",
            "",
        ]
    )


def _storage(volume: GlusterVolume | None) -> str:
    if volume is None:
        return "Name = VFS;"
    return f'Name = GLUSTER; Hostname = "{volume.hosts[0]}"; Volume = "{volume.volume}"; glfs_log = "{volume.log}";'


def _client_blocks(ordered: Sequence[Client]) -> Iterator[str]:
    """Neighbours of one level share a block, which keeps the order and is read much faster."""
    for level, group in itertools.groupby(ordered, key=lambda client: client.level):
        words = [clients.word(form) for client in group for form in clients.forms(client.network)]
        yield "  CLIENT {"
        yield "    Clients = " + ",\n      ".join(words) + ";"
        yield f"    Access_Type = {level.upper()};"
        yield "    Protocols = 4;"
        yield "  }"


def parse(text: str, export_id: int) -> ExportBlock | None:
    """The export that the text was written from; None when it was not written here, or is damaged."""
    first = text.partition("\n")[0]
    if not first.startswith(_MARK):
        return None
    try:
        marked = msgspec.json.decode(first.removeprefix(_MARK), type=_Marked)
    except msgspec.MsgspecError:
        return None
    seen = tuple(Client(network, level) for network, level in marked.clients)
    if marked.volume is not None and not marked.volume.hosts:
        return None
    return ExportBlock(
        name=marked.name,
        export_id=export_id,
        path=marked.path,
        pseudo=marked.pseudo,
        clients=seen,
        volume=marked.volume,
    )


def _filesystem_id(name: str) -> str:
    """The same for one share for ever, whatever its export id: clients tell file systems apart by it."""
    digest = hashlib.sha256(name.encode()).digest()
    return ".".join(str(int.from_bytes(digest[at : at + 8]) >> 1) for at in (0, 8))


def is_shown(block: ExportBlock, seen: Sequence[tuple[str, str]]) -> bool:
    """Whether the daemon shows exactly the block's clients, in order; it may write IPv6 networks differently."""
    wanted = [(form, client.level) for client in block.clients for form in clients.forms(client.network)]
    if len(wanted) != len(seen):
        return False
    return all(
        level == seen_level and (text == seen_text or ipaddress.ip_network(text) == ipaddress.ip_network(seen_text))
        for (text, level), (seen_text, seen_level) in zip(wanted, seen, strict=True)
    )
