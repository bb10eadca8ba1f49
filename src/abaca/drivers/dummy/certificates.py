# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's certificates, which are good ones."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.dummy.storage import Storage, with_faults


class Certificates(Storage, contract.IssuesCertificates):
    """An authority, made when it is first asked for something."""

    def _authority(self) -> Authority:
        place = self.backend.state_dir / "authority"
        return Authority(place / "ca.pem", place / "ca.key")

    @with_faults
    def authority_pem(self) -> str:
        authority = self._authority()
        authority.check()
        return authority.pem

    @with_faults
    def issue(self, name: str, request_pem: str) -> contract.Certificate:
        authority = self._authority()
        if not name or len(name) > 64 or not name.isprintable() or "," in name:
            raise contract.Refused(reason=f"{name!r} is no common name")
        authority.make()
        return contract.Certificate(pem=authority.sign(request_pem, name), authority=authority.pem)
