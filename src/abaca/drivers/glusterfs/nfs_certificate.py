# SPDX-License-Identifier: Apache-2.0
"""The certificate of the back end's own NFS server, on the worker's host."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import shutil
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.authority import Authority, Foreign
from abaca.drivers.clients import commands
from abaca.drivers.glusterfs import names

log = logging.getLogger(__name__)


class Certificate:
    """Certificate, key and authority in the directory to which `link` leads, which are replaced all at once."""

    def __init__(self, link: Path, authority: Authority) -> None:
        self.link = link
        self._authority = authority

    def days_left(self) -> float | None:
        """For how many days there is a good one; None without one of this authority."""
        try:
            pem, known = ((self.link / f"glusterfs.{end}").read_text() for end in ("pem", "ca"))
            key = commands.run("openssl", "pkey", "-in", str(self.link / "glusterfs.key"), "-pubout")
            left_days = self._authority.days_left(pem, names.NFS, key)
        except (OSError, contract.Refused, Foreign):
            return None
        return left_days if known.split() == self._authority.pem.split() else None

    def ends_at(self) -> datetime.datetime | None:
        """When it ends; None without one."""
        left_days = self.days_left()
        return None if left_days is None else datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=left_days)

    def see_to_it(self) -> None:
        """There is a good one, and it is good for a while. Raises `contract.Refused`."""
        left_days = self.days_left()
        if left_days is None or left_days < self._authority.renew_days:
            self.renew()
            if left_days is not None:
                log.warning("NFS-Ganesha's certificate ends in %.0f days: it is started anew with another", left_days)

    def renew(self) -> None:
        """A new key and a new certificate, whatever there is. Raises `contract.Refused`."""
        place = self.link.with_name(f"{self.link.name}-{os.urandom(4).hex()}")
        try:
            current = self.link.resolve()
            for old in self.link.parent.glob(f"{self.link.name}-*"):
                if old.resolve() != current:
                    shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
            self._make(place)
            draft = place.with_name(f"{place.name}.new")
            draft.symlink_to(place.name)
            draft.replace(self.link)
        except OSError as error:
            raise contract.Refused(reason=f"no certificate can be put into {self.link}: {error.strerror}") from error
        log.info("NFS-Ganesha has a new certificate %s", names.NFS)

    def _make(self, place: Path) -> None:
        place.mkdir(parents=True, mode=0o700)
        key = place / "glusterfs.key"
        key.touch(mode=0o600)
        words = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-subj", f"/CN={names.NFS}"]
        request = commands.run("openssl", "req", "-new", *words)
        for end, text in (("pem", self._authority.sign(request, names.NFS)), ("ca", self._authority.pem)):
            (place / f"glusterfs.{end}").write_text(text)


def of(state_dir: Path, authority: Authority) -> Certificate:
    """That of the back end with this state directory."""
    return Certificate(state_dir / "ganesha" / "certificates", authority)


def place() -> Path:
    """Where GlusterFS looks for certificates on this host. Raises `contract.Refused`."""
    commands.need("openssl", "openssl")
    said = commands.run("openssl", "version", "-d")
    found = Path(said.partition('"')[2].rpartition('"')[0])
    with contextlib.suppress(OSError):
        if found.is_absolute() and found.is_dir():
            return found
    raise contract.Refused(reason=f"there is no directory {found} for certificates: `openssl version -d` names it")
