# SPDX-License-Identifier: Apache-2.0
"""Signing requests of machines on paper: as good as real ones, but for a key that nobody has."""

from __future__ import annotations


def fresh() -> str:
    """A request for a key that is forgotten at once, in PEM form."""
    from cryptography import x509  # loaded with the first use: few machines on paper need any
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()
