# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of certificates."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from abaca.drivers import contract
from abaca.nodes import signing_requests


def pem_of(key):
    """A public key as text."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form)


class TestIssuesCertificates:
    capability = contract.IssuesCertificates

    def test_a_certificate_is_for_the_requests_key_under_the_name_that_is_said(self, driver):
        request = signing_requests.fresh()
        issued = driver.issue("abaca-server-1", request)
        made, authority = (x509.load_pem_x509_certificate(one.encode()) for one in (issued.pem, issued.authority))
        made.verify_directly_issued_by(authority)
        assert made.subject.rfc4514_string() == "CN=abaca-server-1"
        assert pem_of(made.public_key()) == pem_of(x509.load_pem_x509_csr(request.encode()).public_key())
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_the_authority_outlives_the_worker(self, harness, driver):
        request = signing_requests.fresh()
        before = driver.issue("alice", request)
        assert before.authority.startswith("-----BEGIN CERTIFICATE-----")
        again = harness.start()
        assert again.issue("alice", request).authority == again.authority_pem() == before.authority

    @pytest.mark.parametrize("name", ["", "a,b", "two\nlines", "x" * 65])
    def test_what_can_be_no_name_is_refused(self, driver, name):
        with pytest.raises(contract.Refused):
            driver.issue(name, signing_requests.fresh())

    @pytest.mark.parametrize("request_pem", ["", "alice", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"])
    def test_what_is_no_request_is_refused(self, driver, request_pem):
        with pytest.raises(contract.Refused):
            driver.issue("alice", request_pem)
