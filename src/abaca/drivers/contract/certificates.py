# SPDX-License-Identifier: Apache-2.0
"""Certificates by which a back end knows its clients."""

from __future__ import annotations

import abc
from collections.abc import Iterator

from abaca.drivers.contract.values import Value

CERTIFICATES_END_AT = "certificates_end_at"
"""The capability by which a pool tells, in ISO 8601, when the first certificate ends on which serving it rests."""


class Certificate(Value, frozen=True, kw_only=True):
    """A client's certificate, and the one of the authority that issued it, by which it knows the servers; both PEM."""

    pem: str
    authority: str


class IssuesCertificates(abc.ABC):
    """Clients are known by certificates, which an authority of the back end issues.

    Unlike all else a driver does, this works before `start` too: `abaca certificate` starts nothing.
    """

    @abc.abstractmethod
    def issue(self, name: str, request_pem: str) -> Certificate:
        """A certificate for the key of a signing request, under this common name whatever the request says.

        Asked for again it is another one, as good as the first. Raises `Refused` for a name or request that cannot be.
        """

    @abc.abstractmethod
    def authority_pem(self) -> str:
        """The authority's own certificate, as it is in each `Certificate`.

        Raises `Refused` where there is none, or none that can sign: it is not made here, where it might be another one.
        """

    def renew(self, *, restarts: bool) -> Iterator[str]:
        """Where servers of the back end have certificates each gets another one; what is done, sentence by sentence.

        With `restarts` what has read the old ones is started anew, and clients may get errors meanwhile. Unless a
        driver says otherwise nothing has any.
        """
        return iter(())
