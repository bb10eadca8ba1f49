# SPDX-License-Identifier: Apache-2.0
"""The certificates by which storages let machines in: whether one has to be issued anew."""

from __future__ import annotations

import datetime

_EARLIER = datetime.timedelta(days=30)


def ends_soon(pem: str) -> bool:
    """Whether it ends within 30 days, or is in the last third of its life, has ended, or is none; not for no text."""
    if not pem.strip():
        return False
    from cryptography import x509  # loaded with the first use: few machines have any

    try:
        found = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return True
    begin, end = found.not_valid_before_utc, found.not_valid_after_utc
    return end - datetime.datetime.now(datetime.UTC) < min(_EARLIER, (end - begin) / 3)
