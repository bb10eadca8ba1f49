# SPDX-License-Identifier: Apache-2.0
"""The texts that make a mount come back after a reboot: a systemd mount unit, or a line of /etc/fstab under a mark.

Both begin with a mark, a comment that says whose it is and which directory was made for it. The mark is written before
the directory is made, so that a crash in between forgets nothing.
"""

from __future__ import annotations

import re
import string

from abaca.nodes.contract import Mount

UNIT_NAME_BYTES = 240
"""Above this a mount point's unit name is too long for systemd, and the fstab is used there too."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PLAIN = frozenset((string.ascii_letters + string.digits + ":_.").encode())
# What mountinfo and fstab write as an octal number.
_TABLE_ESCAPES = {ord(sign): f"\\{ord(sign):03o}" for sign in " \t\n\\"}


def name_problem(name: str) -> str | None:
    """Why `name` cannot mark what is ours, None when it can."""
    return None if _NAME.fullmatch(name) else f"{name!r} is no name: letters, digits, dots and dashes, at most 64"


def path_problem(path: str) -> str | None:
    """Why `path` cannot be a mount point that every file and shell reads alike, None when it can."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid text"
    if not path.startswith("/") or path == "/" or size > 255:
        return "it has to be absolute, below /, and at most 255 bytes long"
    if any(part in {"", ".", ".."} for part in path[1:].split("/")):
        return "it has to be without '.', '..' and double or closing slashes"
    if not path.isprintable() or "\\" in path or path != path.strip():
        return "it holds a control character or a backslash, or ends in a space"
    return None


def escaped_for_table(text: str) -> str:
    """The text as a field of mountinfo or fstab: spaces and backslashes as octal numbers."""
    return text.translate(_TABLE_ESCAPES)


def read_from_table(field: str) -> str:
    """The text that a field of mountinfo or fstab stands for."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def unit_name(mount_point: str) -> str:
    r"""The name systemd insists on for a mount unit: slashes are dashes, other signs `\xNN`, and so is a first dot."""
    inner = mount_point.strip("/").encode()
    if not inner:
        return "-.mount"
    signs = []
    for place, byte in enumerate(inner):
        if byte == ord("/"):
            signs.append("-")
        elif byte in _PLAIN and not (place == 0 and byte == ord(".")):
            signs.append(chr(byte))
        else:
            signs.append(f"\\x{byte:02x}")
    return "".join(signs) + ".mount"


def mark(name: str, made: str) -> str:
    """The comment that says that what follows is ours; `made` is the topmost directory that was made, or empty."""
    return f"# abaca {name} made={escaped_for_table(made)}"


def read_mark(line: str) -> tuple[str, str] | None:
    """Name and made directory of a mark, None when the line is none."""
    found = re.fullmatch(r"# abaca (\S+) made=(\S*)", line)
    return (found[1], read_from_table(found[2])) if found else None


def fstab_lines(mount: Mount, made: str, fstype: str, options: tuple[str, ...]) -> str:
    """The mark and the line of /etc/fstab; without the closing newline."""
    fields = (mount.source, mount.mount_point, fstype, ",".join((*options, "nofail", "_netdev")))
    return f"{mark(mount.name, made)}\n{' '.join(map(escaped_for_table, fields))} 0 0"


def unit_text(mount: Mount, made: str, fstype: str, options: tuple[str, ...]) -> str:
    """The mount unit; without the closing newline. A boot goes on without it: nothing requires it."""
    what, where, how = (
        _unit_value(text) for text in (mount.source, mount.mount_point, ",".join((*options, "_netdev")))
    )
    return "\n".join(
        [
            mark(mount.name, made),
            "# Made by Abaca, and removed when the share is detached from this machine.",
            "[Unit]",
            f"Description=Share at {where}, attached by Abaca",
            "Wants=network-online.target",
            "After=network-online.target",
            "",
            "[Mount]",
            f"What={what}",
            f"Where={where}",
            f"Type={fstype}",
            f"Options={how}",
            "TimeoutSec=90",
            "",
            "[Install]",
            "WantedBy=remote-fs.target",
        ]
    )


def _unit_value(text: str) -> str:
    return text.replace("%", "%%")
