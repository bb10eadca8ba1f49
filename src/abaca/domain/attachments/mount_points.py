# SPDX-License-Identifier: Apache-2.0
"""Where shares may be mounted on servers: which paths are mount points, which of them members of a project may choose.

What a share holds its members write. Mounted among a machine's programs, or where it looks for keys and jobs, it would
make them root there: so members choose below a few roots, to which operators add others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from abaca import errors

# Below these anybody may mount, and below the home of a user, in a directory that is not hidden.
ROOTS = ("/data", "/media", "/mnt", "/srv")
HOME = "/home/<user>/<directory>"

_PART = re.compile(r"[A-Za-z0-9_+@.][A-Za-z0-9_+@.-]*")
# Nothing is mounted on or below these,
_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr",
           "lost+found")  # fmt: skip
_OF_VAR = ("backups", "cache", "lib", "local", "lock", "log", "mail", "opt", "run", "spool", "tmp")
# and on these themselves only what hides nothing may be: below them is fine.
_TREES = frozenset(
    {"/home", "/media", "/mnt", "/net", "/opt", "/root", "/srv", "/tmp", "/var", "/usr/local"}  # noqa: S108
    | {f"/var/{name}" for name in _OF_VAR}
)


class Roots(msgspec.Struct, frozen=True):
    """The roots that an operator has added: `everywhere`, and by the id of a project or of a server."""

    everywhere: tuple[str, ...] = ()
    of: Mapping[str, tuple[str, ...]] = {}

    def at(self, project_id: str, server_id: str) -> tuple[str, ...]:
        """All roots for a server of a project."""
        return (*ROOTS, *self.everywhere, *self.of.get(project_id, ()), *self.of.get(server_id, ()))

    def check(self, path: str, project_id: str, server_id: str) -> None:
        """Raises `Invalid`, with the roots there are, for a mount point that members may not choose on that server."""
        roots = self.at(project_id, server_id)
        if not _is_in_a_home(path) and not any(is_within(path, root) for root in roots):
            raise errors.Invalid(
                f"Nothing is mounted at {path} for members of a project: what a share holds could become part of the "
                f"system there. Choose a directory below {', '.join(dict.fromkeys(roots))} or {HOME}; an operator "
                "adds others with mount_roots in [nodes]."
            )


# For administrators: what `check` below accepts.
ANYWHERE = Roots(everywhere=("/",))


def read_roots(said: Iterable[str]) -> Roots:
    """The roots of `/net` (for all) and `ID:/net` (for one project or server). Raises `Invalid`."""
    everywhere: list[str] = []
    of: dict[str, tuple[str, ...]] = {}
    for one in said:
        owner, colon, path = one.partition(":") if not one.startswith("/") else ("", "", one)
        if not one.startswith("/") and not (owner and colon):
            raise errors.Invalid(f"{one!r} is neither a path nor the id of a project or server, ':' and a path.")
        check(f"{path}/x")
        if owner:
            of[owner] = (*of.get(owner, ()), path)
        else:
            everywhere.append(path)
    return Roots(tuple(everywhere), of)


def check(path: str) -> str:
    """`path`, fit to stand in a command line, an fstab line and a unit file as it is. Raises `Invalid`.

    It is absolute and normalised, of letters, digits and `_ + @ . -`, and neither a directory of the system nor in one.
    """
    if not path.startswith("/"):
        raise errors.Invalid("A mount point must be an absolute path: it begins with '/'.")
    if len(path.encode(errors="replace")) > 255:
        raise errors.Invalid("A mount point has at most 255 bytes.")
    parts = path[1:].split("/")
    if path == "/" or "" in parts or "." in parts or ".." in parts:
        raise errors.Invalid(
            "A mount point must be a normalised path below '/': no '.', '..', '//' and no '/' at its end."
        )
    if not all(_PART.fullmatch(part) for part in parts):
        raise errors.Invalid(
            "A mount point consists of letters, digits and the characters _ + @ . - between its slashes, "
            "and no part of it begins with '-'."
        )
    is_system = parts[0] in _SYSTEM and not path.startswith("/usr/local/")
    if is_system or path in _TREES or parts[:2] in (["var", "run"], ["var", "lock"]):
        raise errors.Invalid(
            f"{path} belongs to the system; choose another directory, such as one below /mnt, /srv or /home."
        )
    return path


def default(share_id: str) -> str:
    """Where a share is mounted when nobody says."""
    return f"/mnt/{share_id}"


def is_within(path: str, root: str) -> bool:
    """Whether a normalised path is the root or below it."""
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _is_in_a_home(path: str) -> bool:
    """Whether it is in a directory of a user's own, and none of it is hidden: there lie keys, and what shells read."""
    _, top, *below = path.split("/")
    return top == "home" and len(below) > 1 and not any(part.startswith(".") for part in below)
