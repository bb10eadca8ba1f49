# SPDX-License-Identifier: Apache-2.0
"""Copying a share's content from one directory to another on this host, and comparing the two.

For moves between back ends that let a host copy (`contract.AllowsCopying`). A copy that was cut short is simply begun
again: what is there already, by type, size and time of change, is not copied twice, and what the source no longer has
goes. Nobody may write to the source meanwhile; `differences` says whether that held.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from abaca.drivers import contract

Seen = Callable[[int, int], object]


def copy(source: Path, destination: Path, seen: Seen = lambda files, size: None) -> None:
    """Make what is below `destination` what is below `source`, owners, permissions, times and links included.

    `seen` is told after each file how many files and bytes are done. A socket or a pipe is left out. Raises `Full`, and
    `Refused` for what cannot be copied.
    """
    links: dict[tuple[int, int], Path] = {}
    files = size = 0
    try:
        for path, below in _walk(source):
            target = destination / below
            status = path.lstat()
            _clear(target, status)
            if stat.S_ISDIR(status.st_mode):
                target.mkdir(exist_ok=True)
                _remove_others(path, target)
            elif stat.S_ISLNK(status.st_mode) or stat.S_ISREG(status.st_mode):
                _copy_file(path, target, links)
                files, size = files + 1, size + status.st_size
                seen(files, size)
        # From the inside out: what is made in a directory changes its times.
        for path, below in sorted(_walk(source), reverse=True):
            if path.is_dir() and not path.is_symlink():
                _copy_attributes(path, destination / below)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise contract.Full(reason=f"{destination}: {error.strerror}") from error
        raise contract.Refused(reason=f"copying {source}: {error}") from error


def differences(source: Path, destination: Path, most: int = 10) -> list[str]:
    """What is not the same below both, a line each and at most so many; empty after a copy that holds."""
    found = []
    ours = {below: path for path, below in _walk(source) if not _is_special(path)}
    theirs = {below: path for path, below in _walk(destination) if not _is_special(path)}
    for below in sorted({*ours, *theirs}):
        if below not in theirs or below not in ours:
            found.append(f"{below} is only in the {'source' if below in ours else 'copy'}")
        elif _described(ours[below]) != _described(theirs[below]):
            found.append(f"{below} differs")
        if len(found) >= most:
            break
    return found


def _walk(top: Path) -> Iterator[tuple[Path, str]]:
    """Everything below a directory, with its place there; the directory itself first, each before what is in it."""
    yield top, "."
    for folder, directories, files in os.walk(top, onerror=_fail):
        for name in sorted((*directories, *files)):
            path = Path(folder, name)
            yield path, str(path.relative_to(top))


def _fail(error: OSError) -> None:
    raise error


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode))


def _clear(target: Path, wanted: os.stat_result) -> None:
    """Nothing of another type is in the way."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_IFMT(target.lstat().st_mode) != stat.S_IFMT(wanted.st_mode):
            _remove(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove_others(source: Path, target: Path) -> None:
    """What the source does not have."""
    for name in {path.name for path in target.iterdir()} - {path.name for path in source.iterdir()}:
        _remove(target / name)


def _copy_file(path: Path, target: Path, links: dict[tuple[int, int], Path]) -> None:
    status = path.lstat()
    first = links.setdefault((status.st_dev, status.st_ino), target) if status.st_nlink > 1 else target
    if first != target:
        target.unlink(missing_ok=True)
        os.link(first, target, follow_symlinks=False)
        return
    if _is_same(status, target):
        return
    if stat.S_ISLNK(status.st_mode):
        target.unlink(missing_ok=True)
        target.symlink_to(path.readlink())
    else:
        shutil.copyfile(path, target)
    _copy_attributes(path, target)


def _is_same(status: os.stat_result, target: Path) -> bool:
    """Whether it was copied before: the time of change is written last."""
    try:
        there = target.lstat()
    except FileNotFoundError:
        return False
    return (status.st_size, status.st_mtime_ns) == (there.st_size, there.st_mtime_ns)


def _copy_attributes(path: Path, target: Path) -> None:
    status = path.lstat()
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(path, target, follow_symlinks=False)


def _described(path: Path) -> tuple[object, ...]:
    """All that a copy must have in common."""
    status = path.lstat()
    kept = (status.st_mode, status.st_uid, status.st_gid)
    if stat.S_ISLNK(status.st_mode):
        return (*kept, str(path.readlink()))
    if stat.S_ISDIR(status.st_mode):
        return (*kept, status.st_mtime_ns)
    with path.open("rb") as file:
        return (*kept, status.st_size, status.st_mtime_ns, hashlib.file_digest(file, "blake2b").digest())
