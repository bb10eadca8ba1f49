# SPDX-License-Identifier: Apache-2.0
"""Block devices: what is on them, and sparse images behind loop devices."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.clients import commands

_EDGE_BYTES = 1024 * 1024


def is_block_device(path: Path) -> bool:
    """Whether a block device is at the path."""
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except OSError:
        return False


def signature(path: Path) -> dict[str, str]:
    """What is recognised on a device or image (`TYPE`, `LABEL`, `UUID`, ...), empty when nothing is."""
    said = commands.run("blkid", "-p", "-o", "export", str(path)) if not _is_blank(path) else ""
    pairs = (line.partition("=") for line in said.splitlines())
    return {key: value.replace("\\ ", " ") for key, _, value in pairs}


def _is_blank(path: Path) -> bool:
    """Whether the places where file systems, partition tables and volume managers write are all zeros."""
    with path.open("rb") as device:
        size = device.seek(0, os.SEEK_END)
        for start in (0, 64 * _EDGE_BYTES, max(0, size - _EDGE_BYTES)):
            device.seek(start)
            if device.read(_EDGE_BYTES).strip(b"\0"):
                return False
    return True


def make_image(path: Path, size_gib: int, label: str) -> None:
    """A sparse image with an empty btrfs in it, for its owner's eyes; nothing is at `path` until it is complete."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as image:
        image.truncate(size_gib << 30)
    format_btrfs(new, label)
    new.rename(path)


def format_btrfs(path: Path, label: str) -> None:
    """An empty btrfs; mkfs.btrfs itself refuses what holds a known file system. Raises `contract.Refused`."""
    commands.run("mkfs.btrfs", "--quiet", "--label", label, str(path), timeout_s=300)


def loops_of(image: Path) -> list[str]:
    """The loop devices that the image is behind."""
    return commands.run("losetup", "--associated", str(image), "--noheadings", "--output", "NAME").split()


def attach_loop(image: Path) -> str:
    """The image's loop device, made when there is none. Raises `contract.Refused`.

    Whoever makes one holds a lock that the program keeps for as long as it runs: it may outlive a worker that is
    killed, and two of them would put the image behind two devices.
    """
    with image.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for attempt in range(5):
            found = loops_of(image)
            if found:
                return found[0]
            try:
                making = ("losetup", "--find", "--show", str(image))
                return commands.run(*making, failed=contract.Busy, keeps=[held.fileno()]).strip()
            except contract.Busy as error:  # Another process took the free device first.
                if attempt == 4:
                    raise contract.Refused(reason=f"no loop device for {image}: {error.message}") from error
                time.sleep(0.1)
    raise AssertionError


def detach_loop(image: Path) -> None:
    """The image is behind no loop device any more. Raises `contract.Busy` while it is in use elsewhere."""
    for device in loops_of(image):
        commands.run("losetup", "--detach", device, failed=contract.Busy)


def grow_image(image: Path, device: str, size_gib: int) -> None:
    """Let the image be at least so large, and its device show all of it, also of what had grown before a death."""
    if image.stat().st_size < size_gib << 30:
        with image.open("r+b") as file:
            file.truncate(size_gib << 30)
    commands.run("losetup", "--set-capacity", device)
