# SPDX-License-Identifier: Apache-2.0
"""The exports as files, which is what is true: a daemon that starts reads them, a worker that starts remembers by them.

One file an export, `<export id>-<name>.conf`, replaced in one step. Files that were not written here are left alone,
and their export ids are not used. A file of ours that is damaged is put aside: NFS-Ganesha would not start with it.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.exports import blocks
from abaca.drivers.exports.blocks import ExportBlock

log = logging.getLogger(__name__)

MOST = 65535
_FILE = re.compile(r"(\d{5})-[A-Za-z0-9_.-]+\.conf")
_FOREIGN_ID = re.compile(r"\bExport_Id\s*=\s*(\d+)", re.IGNORECASE)
_AHEAD = 64


class ExportFiles:
    """All exports by name. Not safe for threads by itself: its owner holds a lock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "exports"
        self._drafts = directory / "drafts"
        self._damaged = directory / "damaged"
        self._mark = directory / "next_export_id"
        self._blocks: dict[str, ExportBlock] = {}
        self._names: dict[str, str] = {}
        self._taken: set[int] = set()
        self._next = self._reserved = 1

    def load(self) -> None:
        """Read everything that is there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._drafts.mkdir(exist_ok=True)
        for draft in self._drafts.iterdir():
            draft.unlink()
        self._blocks, self._names, self._taken = {}, {}, {0}
        for file in sorted(self.directory.iterdir()):
            if file.is_file():
                self._load(file)
        if self._mark.exists():
            self._next = self._reserved = int(self._mark.read_text() or "1")

    def _load(self, file: Path) -> None:
        text = file.read_text(errors="replace")
        named = _FILE.fullmatch(file.name)
        block = blocks.parse(text, int(named[1])) if named else None
        if block and self.file_of(block) == file:
            self._hold(block)
        elif named and not block:
            log.error("%s is damaged and is put aside", file)
            self._damaged.mkdir(exist_ok=True)
            file.rename(self._damaged / file.name)
        else:
            log.warning("%s was not written here and is left alone", file)
            self._taken |= {int(id) for id in _FOREIGN_ID.findall(text)}

    def names(self) -> list[str]:
        return list(self._blocks)

    def get(self, name: str) -> ExportBlock | None:
        return self._blocks.get(name)

    def blocks(self) -> list[ExportBlock]:
        return list(self._blocks.values())

    def serving(self, pseudo: str) -> ExportBlock | None:
        """The export that clients mount by this path."""
        return self._blocks.get(self._names.get(pseudo, ""))

    def file_of(self, block: ExportBlock) -> Path:
        """Where the export is written."""
        return self.directory / f"{block.export_id:05}-{block.name.replace('/', '-')}.conf"

    def is_written(self, block: ExportBlock) -> bool:
        """Whether its file says exactly this."""
        try:
            return self.file_of(block).read_text() == blocks.render(block)
        except FileNotFoundError:
            return False

    def put(self, block: ExportBlock) -> None:
        """Write the export; a power cut leaves the old or the new file, never half of one."""
        draft = self._drafts / self.file_of(block).name
        _write(draft, blocks.render(block))
        draft.rename(self.file_of(block))
        self._hold(block)
        _settle(self.directory)

    def _hold(self, block: ExportBlock) -> None:
        held = self._blocks.get(block.name)
        if held is not None:
            self._names.pop(held.pseudo, None)
        self._blocks[block.name] = block
        self._names[block.pseudo] = block.name
        self._taken.add(block.export_id)

    def drop(self, block: ExportBlock) -> None:
        """Its id may be used again, though not before all others have been."""
        self.file_of(block).unlink(missing_ok=True)
        self._blocks.pop(block.name, None)
        self._names.pop(block.pseudo, None)
        self._taken.discard(block.export_id)
        _settle(self.directory)

    def free_id(self) -> int:
        """An export id that is not in use, the one that has been unused for longest. Raises `contract.Full`."""
        if len(self._taken) > MOST:
            raise contract.Full(reason=f"NFS-Ganesha serves at most {MOST} exports")
        while self._next in self._taken:
            self._next = self._next % MOST + 1
        found = self._next
        self._next = found % MOST + 1
        if not found < self._reserved <= found + _AHEAD:
            self._reserved = min(found + _AHEAD, MOST + 1)
            draft = self._drafts / self._mark.name
            _write(draft, str(self._reserved % (MOST + 1) or 1))
            draft.rename(self._mark)
        return found


def _settle(directory: Path) -> None:
    """What was renamed and removed in it stays so after a power cut: nobody who lost access gets it back by one."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise contract.Unreachable(reason=f"{directory} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """All of it, on disk. Raises `contract.Unreachable` when that cannot be, as on a full disk."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise contract.Unreachable(reason=f"{path} cannot be written: {error.strerror}") from error
