# SPDX-License-Identifier: Apache-2.0
"""The users of `http_basic`: a file with a line `name:bcrypt hash:project id:role,role` each, and how it is changed.

Reading refuses what would let the wrong people in later: hashes that are none or too cheap, names that stand twice, a
file that anybody may write. A check takes as long for everybody, whoever they are and whether there is such a user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from abaca import errors
from abaca.domain.callers import Identity, with_implied

CHEAPEST, DEAREST = 10, 14
LONGEST_PASSWORD_BYTES = 72
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_NAME = re.compile(r"[^\s:#\x00-\x1f\x7f][^:\x00-\x1f\x7f]{0,254}")
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_MODE = 0o640


class User(NamedTuple):
    """A line of the file."""

    name: str
    password: bytes
    project_id: str
    roles: tuple[str, ...]

    @property
    def line(self) -> str:
        """As it stands in the file."""
        return f"{self.name}:{self.password.decode()}:{self.project_id}:{','.join(self.roles)}"

    @property
    def identity(self) -> Identity:
        """Who they are to the API."""
        return Identity(self.name, self.project_id, with_implied(frozenset(self.roles)))

    @property
    def cost(self) -> int:
        """The logarithm of what a check of the password costs."""
        return int(self.password[4:6])


class Users:
    """Everybody who may log in."""

    def __init__(self, users: Iterable[User]) -> None:
        self.by_name: Mapping[str, User] = {user.name: user for user in users}
        self._cost = max((user.cost for user in self.by_name.values()), default=CHEAPEST)

    def verify(self, name: str, password: bytes) -> User | None:
        """The user, if the password is theirs. The time tells neither whether there is such a user nor their cost."""
        import bcrypt

        password = password[:LONGEST_PASSWORD_BYTES]
        user = self.by_name.get(name)
        checked = user.password if user is not None else _nobody(self._cost)
        is_right: bool = bcrypt.checkpw(password, checked.replace(b"$2y$", b"$2b$", 1))
        # costs double: all from the user's own on make up what the dearest takes
        for cost in range(user.cost if user is not None else self._cost, self._cost):
            bcrypt.checkpw(password, _nobody(cost))
        return user if is_right else None


def _nobody(cost: int) -> bytes:
    """A hash of that cost which no password has."""
    return b"$2b$%02d$" % cost + b"." * 53


def hashed(password: str, cost: int = CHEAPEST) -> bytes:
    """What is kept of a password."""
    import bcrypt

    made: bytes = bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost))
    return made


def read(file: Path) -> Users:
    """The users of the file. Raises `ConfigError` that names the line, or the mode of the file."""
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else "it is not UTF-8 text"
        raise errors.ConfigError(
            problem=f"The users file {file} cannot be read: {why}",
            mend="Make it with `abaca user add`, or set http_basic_auth_user_file to one that this user may read",
        ) from None
    if mode & stat.S_IWOTH and not stat.S_ISCHR(mode):
        raise errors.ConfigError(
            problem=f"Anybody on this host may write the users file {file}, and so log in as anybody",
            mend=f"chmod o-rwx {file}, and see who is in it",
        )
    return Users(_parsed(text, file))


def _parsed(text: str, file: Path) -> Iterator[User]:
    seen = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user = _user(line.strip(), f"{file} line {number}")
        if user.name in seen:
            raise errors.ConfigError(
                problem=f"{file} line {number}: the user {user.name} stands there twice",
                mend="Take one of the lines out",
            )
        seen.add(user.name)
        yield user


def _user(line: str, where: str) -> User:
    parts = line.split(":")
    if len(parts) != 4 or not all(parts):
        raise errors.ConfigError(
            problem=f"{where} is not a user",
            mend="Write name:bcrypt hash:project id:role,role, or use `abaca user add`",
        )
    name, password, project_id, roles = parts
    found = _HASH.fullmatch(password)
    if found is None:
        raise errors.ConfigError(
            problem=f"{where}: what stands there for the password of {name} is no bcrypt hash",
            mend="Set one with `abaca user passwd`",
        )
    cost = int(found.group(1))
    if not CHEAPEST <= cost <= DEAREST:
        why = "is guessed too fast" if cost < CHEAPEST else "makes every login wait for seconds"
        raise errors.ConfigError(
            problem=f"{where}: the hash of {name} has the cost {cost}, which {why}",
            mend=f"Set a password with `abaca user passwd {name}`; costs of {CHEAPEST} to {DEAREST} are taken",
        )
    return User(name, password.encode(), project_id, tuple(roles.split(",")))


def check(name: str, project_id: str, roles: Iterable[str]) -> None:
    """Raises `Invalid` for what a line cannot hold."""
    if not _NAME.fullmatch(name) or name != name.strip():
        raise errors.Invalid("The name of a user is text without ':', and does not begin with '#' or a space.")
    if not _PROJECT.fullmatch(project_id):
        raise errors.Invalid(
            "A project id has letters, digits and any of . _ - in it: 32 hexadecimal digits by custom."
        )
    for role in roles:
        if not _ROLE.fullmatch(role):
            raise errors.Invalid(f"{role[:64]!r} cannot be a role: they are admin, member and reader, or your own.")


def check_password(password: str) -> None:
    """Raises `Invalid` for one that is guessed soon, or of which bcrypt would drop the end."""
    if len(password) < 8:
        raise errors.Invalid("A password has 8 characters or more.")
    if len(password.encode()) > LONGEST_PASSWORD_BYTES or not password.isprintable():
        raise errors.Invalid(f"A password has at most {LONGEST_PASSWORD_BYTES} bytes, and no control characters.")


@contextlib.contextmanager
def changing(file: Path) -> Iterator[dict[str, User]]:
    """The users by name, to be changed in this block; then the file has them, whole or not at all.

    Comments and the order of lines stay. A new file is readable by the group of its directory, and by nobody else.
    Raises `ConfigError`; two that change it wait for each other.
    """
    file = file.resolve()
    try:
        directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        users = dict(read(file).by_name) if file.exists() else {}
        before = dict(users)
        yield users
        if users != before:
            _write(file, users)
    except OSError as error:
        raise _unwritable(file, error) from None
    finally:
        os.close(directory)


def _write(file: Path, users: Mapping[str, User]) -> None:
    old = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    left, lines = dict(users), []
    for line in old:
        name = line.strip().partition(":")[0]
        if not line.strip() or line.startswith("#"):
            lines.append(line)
        elif name in left:
            lines.append(left.pop(name).line)
    lines += [user.line for user in left.values()]
    like = file.stat() if file.exists() else None
    descriptor, scratch = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write("".join(f"{line}\n" for line in lines))
            if os.geteuid() == 0:
                os.fchown(descriptor, like.st_uid if like else 0, like.st_gid if like else file.parent.stat().st_gid)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode) if like else _MODE)
            opened.flush()
            os.fsync(descriptor)
        Path(scratch).replace(file)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def _unwritable(file: Path, error: OSError) -> errors.ConfigError:
    return errors.ConfigError(
        problem=f"The users file {file} cannot be written: {error.strerror}",
        mend="Make its directory, and run this as a user that may write there",
    )
