# SPDX-License-Identifier: Apache-2.0
"""What the local driver asks of btrfs, by the kernel's stable ioctl interface (linux/btrfs.h).

A subvolume and its limit cost 0.1 ms this way, and a usage is read without listing all others.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

from abaca.drivers import contract

_NONE, _WRITE, _READ = 0, 1, 2
UNLIMITED = 2**64 - 1
_FIRST_FREE = 256
_QUOTA_TREE, _ROOT_TREE = 8, 1
_ROOT_ITEM, _QGROUP_STATUS, _QGROUP_INFO, _QGROUP_LIMIT = 132, 240, 242, 244
_COUNTS, _IS_COUNTING, _IS_WRONG = 1, 2, 4  # of the status: on, a count under way, numbers that are not true
_LEVEL_ONE = 2**48
_ORPHANS, _ORPHAN_ITEM = 2**64 - 5, 48
_NOBODY = bytes(16)


Key = tuple[int, int, int]
Item = tuple[int, int, int, bytes]


def _number(direction: int, number: int, size: int) -> int:
    return (direction << 30) | (size << 16) | (0x94 << 8) | number


_RESIZE = _number(_WRITE, 3, 4096)
_SYNC = _number(_NONE, 8, 0)
_GET_FLAGS = _number(_READ, 25, 8)
_SUBVOL_CREATE = _number(_WRITE, 14, 4096)
_SNAP_DESTROY = _number(_WRITE, 15, 4096)
_SET_FLAGS = _number(_WRITE, 26, 8)
_TREE_SEARCH = _number(_READ | _WRITE, 17, 4096)
_INO_LOOKUP = _number(_READ | _WRITE, 18, 4096)
_SNAP_CREATE = _number(_WRITE, 23, 4096)
_QUOTA_CTL = _number(_READ | _WRITE, 40, 16)
_QGROUP_CREATE = _number(_WRITE, 42, 16)
_QUOTA_RESCAN = _number(_WRITE, 44, 64)
_QUOTA_WAIT = _number(_NONE, 46, 0)
_SET_LIMIT = _number(_READ, 43, 48)


def is_subvolume(path: Path) -> bool:
    """Whether a subvolume's root is at the path itself (a symbolic link is not followed)."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return False
    return seen.st_ino == _FIRST_FREE and seen.st_dev != path.parent.stat().st_dev


def create(path: Path) -> None:
    """Make an empty subvolume. Raises `contract.Full`."""
    _call(path.parent, _SUBVOL_CREATE, _named(path.name), f"creating {path}")


def snapshot(source: Path, path: Path, *, read_only: bool) -> None:
    """Make `path` a snapshot of `source`, on disk when it returns. Raises `contract.Gone`, `contract.Full`."""
    with _opened(source) as fd:
        argument = struct.pack("=qQQ32x4040s", fd, 0, 2 if read_only else 0, path.name.encode())
        _call(path.parent, _SNAP_CREATE, argument, f"taking {path} of {source}")


def delete(path: Path) -> None:
    """Remove a subvolume with all its content. The space comes back a little later."""
    _call(path.parent, _SNAP_DESTROY, _named(path.name), f"deleting {path}")


def tree_id(path: Path) -> int:
    """The number of the subvolume that the path is in."""
    answer = _call(path, _INO_LOOKUP, struct.pack("=QQ4080x", 0, _FIRST_FREE), f"looking up {path}")
    return int(struct.unpack_from("=Q", answer)[0])


def is_read_only(path: Path) -> bool:
    """Whether the subvolume takes no writes, as a snapshot or one that was received."""
    return bool(struct.unpack("=Q", _call(path, _GET_FLAGS, bytes(8), f"looking at {path}"))[0] & 2)


def make_read_only(path: Path, *, so: bool) -> None:
    """Let the subvolume take no writes, or let it take them. Raises `contract.Refused` while it is being sent."""
    flags = struct.unpack("=Q", _call(path, _GET_FLAGS, bytes(8), f"looking at {path}"))[0]
    wanted = flags | 2 if so else flags & ~2
    if wanted != flags:
        _call(path, _SET_FLAGS, struct.pack("=Q", wanted), f"changing {path}")


def limit(path: Path, size_bytes: int) -> None:
    """Bound how much the subvolume may refer to; `UNLIMITED` lifts it. Raises `contract.Gone`.

    The call reserves room in the subvolume through which it is made: in one that is full to its limit there is none.
    """
    argument = struct.pack("=QQQQQQ", tree_id(path), 1, size_bytes, 0, 0, 0)
    _call(path.parent, _SET_LIMIT, argument, f"limiting {path}")


def usages(path: Path) -> dict[int, tuple[int, int]]:
    """Per subvolume what it refers to and its limit, in bytes, as of the last commit."""
    return _usages(_search(path, _QUOTA_TREE, (0, _QGROUP_INFO, _FIRST_FREE), (0, _QGROUP_LIMIT, _LEVEL_ONE - 1)))


def usage(path: Path, tree: int) -> tuple[int, int]:
    """As `usages`, for one subvolume. Raises `contract.Gone`."""
    keys = [(0, kind, tree) for kind in (_QGROUP_INFO, _QGROUP_LIMIT)]
    items = [item for key in keys for item in _search(path, _QUOTA_TREE, key, key)]
    try:
        return _usages(items)[tree]
    except KeyError as error:
        raise contract.Gone(reason=f"nothing is accounted for subvolume {tree} of {path}") from error


def _usages(items: Iterable[Item]) -> dict[int, tuple[int, int]]:
    referenced, limits = {}, {}
    for kind, _, tree, content in items:
        if kind == _QGROUP_INFO and _FIRST_FREE <= tree < _LEVEL_ONE:
            referenced[tree] = struct.unpack_from("<Q", content, 8)[0]
        elif kind == _QGROUP_LIMIT:
            flags, most = struct.unpack_from("<QQ", content)
            limits[tree] = most if flags & 1 else UNLIMITED
    return {tree: (value, limits.get(tree, UNLIMITED)) for tree, value in referenced.items()}


def trees(path: Path) -> set[int]:
    """The numbers of all subvolumes, those still being deleted included."""
    items = _search(path, _ROOT_TREE, (_FIRST_FREE, _ROOT_ITEM, 0), (_LEVEL_ONE, _ROOT_ITEM, 0))
    return {tree for kind, tree, _, _ in items if kind == _ROOT_ITEM}


class Made(NamedTuple):
    """A subvolume by its uuid, and what it was made a snapshot of; None for one that was made empty."""

    uuid: bytes
    parent: bytes | None
    is_read_only: bool


def family(path: Path) -> Mapping[int, Made]:
    """By its number what each subvolume was made of; one that is being deleted is none any more."""
    # Not by the subvolume's own item, which says that it is deleted only from the next commit on. Asked first: both
    # are gone once the space is back.
    deleting = _deleting(path)
    items = _search(path, _ROOT_TREE, (_FIRST_FREE, _ROOT_ITEM, 0), (_LEVEL_ONE, _ROOT_ITEM, 0))
    found = {}
    for kind, tree, _, content in items:
        if kind == _ROOT_ITEM and tree not in deleting:
            flags = struct.unpack_from("<Q", content, 208)[0]
            uuid, parent = struct.unpack_from("16s16s", content, 247)
            found[tree] = Made(uuid, None if parent == _NOBODY else parent, bool(flags & 1))
    return found


def is_deleting(path: Path) -> bool:
    """Whether the space of a deleted subvolume is still to come back."""
    return bool(_deleting(path))


def _deleting(path: Path) -> set[int]:
    """The numbers of deleted subvolumes whose space is still to come back."""
    first, last = (_ORPHANS, _ORPHAN_ITEM, 0), (_ORPHANS, _ORPHAN_ITEM, _LEVEL_ONE)
    return {tree for kind, _, tree, _ in _search(path, _ROOT_TREE, first, last) if kind == _ORPHAN_ITEM}


def forget(path: Path, tree: int) -> None:
    """Drop the accounting of a subvolume that is gone; one that the kernel keeps or has dropped already is left."""
    with contextlib.suppress(contract.Busy, contract.Gone, contract.Refused):
        _call(path, _QGROUP_CREATE, struct.pack("=QQ", 0, tree), f"forgetting {tree}")


def enable_quota(path: Path) -> None:
    """Account for what each subvolume refers to, all of it counted when it returns; already so is success."""
    try:
        next(_search(path, _QUOTA_TREE, (0, 0, 0), (0, _QGROUP_LIMIT, 0)), None)
    except contract.Gone:  # There is no such tree yet. A count that goes on while shares are made would miss some.
        _call(path, _QUOTA_CTL, struct.pack("=QQ", 1, 0), f"accounting at {path}")
        _call(path, _QUOTA_WAIT, b"", f"counting at {path}")


def is_counted(path: Path) -> bool:
    """Whether usages are true, as of the last commit.

    They are not while all is counted, nor when the kernel has given up: until it counts anew, they stay as they were.
    """
    key = (0, _QGROUP_STATUS, 0)
    with contextlib.suppress(contract.Gone):  # nothing is accounted for
        for *_, content in _search(path, _QUOTA_TREE, key, key):
            flags: int = struct.unpack_from("<QQQ", content)[2]
            return flags & (_COUNTS | _IS_COUNTING | _IS_WRONG) == _COUNTS
    return False


def count_anew(path: Path) -> bool:
    """Have all usages counted from the beginning, which may take long; whether it was begun now."""
    try:
        _call(path, _QUOTA_RESCAN, bytes(64), f"counting at {path}")
    except contract.Busy:
        return False
    return True


def sync(path: Path) -> None:
    """Everything done so far is on disk, and usages are exact, when it returns."""
    _call(path, _SYNC, b"", f"syncing {path}")


def grow(path: Path) -> None:
    """Let the file system take all of its device."""
    _call(path, _RESIZE, _named("max"), f"growing {path}")


def _named(name: str) -> bytes:
    return struct.pack("=q4088s", 0, name.encode())


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _raise(error, f"opening {path}")
    try:
        yield fd
    finally:
        os.close(fd)


def _call(path: Path, number: int, argument: bytes, what: str) -> bytes:
    buffer = bytearray(argument)
    with _opened(path) as fd:
        try:
            fcntl.ioctl(fd, number, buffer) if buffer else fcntl.ioctl(fd, number)
        except OSError as error:
            _raise(error, what)
    return bytes(buffer)


def _raise(error: OSError, what: str) -> NoReturn:
    kinds = {
        errno.ENOSPC: contract.Full,
        errno.EDQUOT: contract.Full,
        errno.EBUSY: contract.Busy,
        errno.EAGAIN: contract.Busy,
        errno.EINPROGRESS: contract.Busy,
        errno.ETXTBSY: contract.Busy,
        errno.ENOENT: contract.Gone,
        errno.EIO: contract.Unreachable,
        errno.EROFS: contract.Unreachable,
    }
    raise kinds.get(error.errno or 0, contract.Refused)(reason=f"{what}: {error.strerror}") from error


def _search(path: Path, tree: int, first: Key, last: Key) -> Iterator[Item]:
    """Items of a tree whose key (object, type, offset) is between the two, in that order."""
    while True:
        key = struct.pack(
            "=QQQQQQQIIII32x",
            *(tree, first[0], last[0], first[2], last[2], 0, 2**64 - 1),
            *(first[1], last[1], 4096, 0),
        )
        answer = _call(path, _TREE_SEARCH, key + bytes(4096 - len(key)), f"reading tree {tree} of {path}")
        count = struct.unpack_from("=I", answer, 64)[0]
        at = len(key)
        for _ in range(count):
            _, objectid, offset, kind, size = struct.unpack_from("=QQQII", answer, at)
            at += 32
            yield kind, objectid, offset, answer[at : at + size]
            at += size
            first = (objectid, kind, offset + 1)
        if not count or first > last:
            return
