# SPDX-License-Identifier: Apache-2.0
"""The certificate authority of a back end: it signs the nodes' certificates, and those of clients."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from abaca.drivers import contract

# Loaded with the first use: most commands and workers never sign anything.
if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

OWN_DAYS = 7300
_RENEW_DAYS = 30
_EARLIER = datetime.timedelta(hours=1)
"""Certificates are good from a while ago: machines' clocks differ."""
_LEAST_RSA_BITS = 2048


class Foreign(Exception):
    """A certificate of another authority."""


class Authority:
    """An authority of which certificate and key are in files; none of its private key is ever told."""

    def __init__(
        self, certificate: Path, key: Path, now: Callable[[], datetime.datetime] | None = None, *, days: int = 1825
    ) -> None:
        self._files = certificate, key
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        self._days = days

    def make(self) -> None:
        """Make both files unless they are there. Raises `contract.Refused` when they cannot be written."""
        certificate, key = self._files
        try:
            certificate.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not key.exists():
                self._make_key(key)
            if not certificate.exists():
                _write(certificate, self._made(), 0o644)
        except OSError as error:
            raise contract.Refused(reason=f"no authority can be made in {certificate.parent}: {error}") from error

    @staticmethod
    def _make_key(file: Path) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        made = rsa.generate_private_key(public_exponent=65537, key_size=3072)
        plain = serialization.NoEncryption()
        pem = made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        _write(file, pem, 0o600)

    def _made(self) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        name = _name(f"Abaca {os.urandom(4).hex()}")
        key = self._key()
        built = (
            self._built(name, name, key.public_key(), OWN_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return _signed(built, key).public_bytes(serialization.Encoding.PEM)

    @property
    def is_there(self) -> bool:
        """Whether anything of it was ever made."""
        return any(file.exists() for file in self._files)

    @property
    def ends_at(self) -> datetime.datetime:
        """When the authority itself is no longer good. Raises `contract.Refused`."""
        return self._certificate().not_valid_after_utc

    @property
    def renew_days(self) -> float:
        """A certificate that is good for less is due to be renewed; short-lived ones are in their last third."""
        return min(_RENEW_DAYS, self._days / 3)

    @property
    def pem(self) -> str:
        """The authority's certificate. Raises `contract.Refused`."""
        from cryptography.hazmat.primitives import serialization

        return self._certificate().public_bytes(serialization.Encoding.PEM).decode()

    def check(self) -> None:
        """Raises `contract.Refused` when certificate and key are not of one authority, or it is no longer good."""
        certificate = self._certificate()
        if certificate.public_key() != self._key().public_key():
            raise contract.Refused(reason=f"{self._files[0]} and {self._files[1]} are not of one authority")
        if certificate.not_valid_after_utc <= self._now():
            raise contract.Refused(reason=f"{self._files[0]} has ended: give the back end a new authority")

    def sign(self, request_pem: str, common_name: str) -> str:
        """A certificate for the key of a signing request, under this name whatever the request says.

        Raises `contract.Refused` for what is no request, is not signed by its own key, or has a weak key.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        try:
            request = x509.load_pem_x509_csr(request_pem.encode())
            key = request.public_key()
            is_own = request.is_signature_valid
        except Exception as error:
            reason = "that is no signing request in PEM form: `openssl req -new -key KEY -subj /CN=NAME` writes one"
            raise contract.Refused(reason=reason) from error
        if not is_own:
            raise contract.Refused(reason="the signing request is not signed by its own key")
        self._refuse_weak(key)
        authority = self._certificate()
        built = self._built(_name(common_name), authority.subject, key, self._days).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        return _signed(built, self._key()).public_bytes(serialization.Encoding.PEM).decode()

    def days_left(self, pem: str, common_name: str, public_key_pem: str) -> float | None:
        """How long a certificate of ours, of this name and key, is good; None when it is no such certificate.

        Raises `Foreign` when it is one of another authority.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        with contextlib.suppress(ValueError):
            found = x509.load_pem_x509_certificate(pem.encode())
            if not self._is_ours(found):
                raise Foreign(f"it has a certificate of {found.issuer.rfc4514_string() or 'nobody'}")
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            key = found.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
            if found.subject == _name(common_name) and key.split() == public_key_pem.split():
                return (found.not_valid_after_utc - self._now()) / datetime.timedelta(days=1)
        return None

    def name_in(self, pem: str) -> str | None:
        """The common name in a certificate of ours; None when it is no such certificate."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        with contextlib.suppress(ValueError):
            found = x509.load_pem_x509_certificate(pem.encode())
            if self._is_ours(found):
                return " ".join(str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
        return None

    def is_in(self, bundle: str) -> bool | None:
        """Whether the authority is among these certificates; None when there is none."""
        from cryptography import x509

        try:
            return self._certificate() in x509.load_pem_x509_certificates(bundle.encode())
        except ValueError:
            return None

    def left_days(self, pem: str) -> float | None:
        """How long a certificate of ours is good, whoever has its key; None when it is no such certificate."""
        from cryptography import x509

        with contextlib.suppress(ValueError):
            found = x509.load_pem_x509_certificate(pem.encode())
            if self._is_ours(found):
                return (found.not_valid_after_utc - self._now()) / datetime.timedelta(days=1)
        return None

    def _is_ours(self, found: x509.Certificate) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            found.verify_directly_issued_by(self._certificate())
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True

    def _built(
        self, subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, days: int
    ) -> x509.CertificateBuilder:
        from cryptography import x509

        now = self._now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def _certificate(self) -> x509.Certificate:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate(self._files[0].read_bytes())
        except (OSError, ValueError) as error:
            raise contract.Refused(reason=f"the authority's certificate {self._files[0]}: {_why(error)}") from error

    def _key(self) -> _PrivateKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        try:
            key = serialization.load_pem_private_key(self._files[1].read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise contract.Refused(reason=f"the authority's key {self._files[1]}: {_why(error)}") from error
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise contract.Refused(
                reason=f"the authority's key {self._files[1]} is neither RSA nor of an elliptic curve"
            )
        return key

    @staticmethod
    def _refuse_weak(key: CertificatePublicKeyTypes) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS:
            return
        if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= 256:
            return
        raise contract.Refused(reason="the key of the request must be RSA of 2048 bits, or of an elliptic curve of 256")


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec as _ec
    from cryptography.hazmat.primitives.asymmetric import rsa as _rsa

    _PrivateKey = _rsa.RSAPrivateKey | _ec.EllipticCurvePrivateKey


def _signed(built: x509.CertificateBuilder, key: _PrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return built.sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write(file: Path, content: bytes, mode: int) -> None:
    """The whole file or none of it, on disk when it returns; one that is there already stays."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.touch(mode=mode)
    try:
        with draft.open("wb") as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
    finally:
        draft.unlink()
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _why(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) else "it is no PEM file without a passphrase")
