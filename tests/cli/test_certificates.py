# SPDX-License-Identifier: Apache-2.0
"""`abaca certificate`, as an operator gives it."""

import shutil
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from abaca.drivers.authority import Authority

ONE = "enabled_share_backends = gold\n[gold]\ndriver = glusterfs\ndriver_handles_share_servers = false\n"
TWO = ONE.replace("gold\n[", "gold, red\n[", 1) + ONE.partition("\n")[2].replace("[gold]", "[red]")


def request_of(key, name="whatever"):
    """A signing request in PEM form."""
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


KEY = ec.generate_private_key(ec.SECP256R1())
GOOD = request_of(KEY)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two authorities, as workers make them."""
    places = {name: tmp_path_factory.mktemp(name) for name in ("gold", "red")}
    for place in places.values():
        Authority(place / "ca.pem", place / "ca.key").make()
    return places


@pytest.fixture
def authorities(tmp_path, made):
    """The directories of the back ends' own authorities."""
    found = {name: tmp_path / "state" / "backends" / name / "authority" for name in made}
    for name, place in found.items():
        shutil.copytree(made[name], place)
    return found


@pytest.fixture
def certificate(config, authorities):
    """`certificate("issue", "alice", said=...)`: the command with a request on its input; how it ended."""

    def certificate(*arguments, said="", settings=ONE):
        command = [sys.executable, "-m", "abaca", "certificate", *arguments, "--config-file", str(config(settings))]
        return subprocess.run(command, input=said, capture_output=True, text=True, timeout=120, check=False)

    return certificate


def test_a_request_is_signed_by_the_authority_under_the_name_that_is_said(certificate):
    issued = certificate("issue", "alice", said=GOOD)
    assert (issued.returncode, issued.stderr) == (0, ""), issued
    shown = certificate("authority")
    made, authority = (x509.load_pem_x509_certificate(one.stdout.encode()) for one in (issued, shown))
    made.verify_directly_issued_by(authority)
    assert made.subject.rfc4514_string() == "CN=alice"
    assert made.public_key() == KEY.public_key()
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert "PRIVATE" not in issued.stdout + shown.stdout


@pytest.mark.parametrize(
    ("name", "said", "says"),
    [
        ("a,b", GOOD, "1 to 64 letters"),
        ("*", GOOD, "1 to 64 letters"),
        ("abaca-node-1", GOOD, "those of the nodes"),
        ("alice", "", "no signing request"),
        (
            "alice",
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
            "no signing request",
        ),
        ("alice", request_of(rsa.generate_private_key(65537, 1024)), "RSA of 2048 bits"),  # noqa: S505
        ("alice", "x" * 70000, "too long"),
    ],
)
def test_what_cannot_be_signed_is_explained(certificate, name, said, says):
    refused = certificate("issue", name, said=said)
    assert (refused.returncode, refused.stdout) == (1, ""), refused
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr


def test_any_driver_that_issues_certificates_signs(certificate):
    dummy = ONE.replace("glusterfs", "dummy")
    issued, shown = certificate("issue", "alice", said=GOOD, settings=dummy), certificate("authority", settings=dummy)
    made, authority = (x509.load_pem_x509_certificate(one.stdout.encode()) for one in (issued, shown))
    made.verify_directly_issued_by(authority)
    renewed = certificate("renew", "--restart", settings=dummy)
    assert (renewed.returncode, renewed.stdout, renewed.stderr) == (0, "", "")


def test_where_no_driver_issues_certificates_that_is_said(certificate):
    refused = certificate("authority", settings=ONE.replace("glusterfs", "local"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "No back end here issues certificates" in refused.stderr


def test_which_back_end_must_be_said_where_several_have_an_authority(certificate):
    assert "one of: gold, red" in certificate("authority", settings=TWO).stderr
    pems = {certificate("authority", "--backend", name, settings=TWO).stdout for name in ("gold", "red")}
    assert len(pems) == 2
    assert "could not be found" in certificate("authority", "--backend", "blue", settings=TWO).stderr


def test_an_authority_that_no_worker_has_made_is_not_made_here(certificate, authorities):
    shutil.rmtree(authorities["gold"])
    for words in (("issue", "alice"), ("authority",)):
        refused = certificate(*words, said=GOOD)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "ca.pem: No such file" in refused.stderr
    assert not authorities["gold"].exists()


def test_an_authority_of_which_certificate_and_key_differ_signs_nothing(certificate, tmp_path):
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=ca", "-days", "2"]
    for name in ("a", "b"):
        files = ["-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.pem"]
        subprocess.run([*words, *files], check=True, capture_output=True)
    given = f"authority_certificate = {tmp_path}/a.pem\nauthority_key = {tmp_path}/{{}}.key\n"
    issued = certificate("issue", "alice", said=GOOD, settings=ONE + given.format("a"))
    assert issued.returncode == 0, issued
    refused = certificate("issue", "alice", said=GOOD, settings=ONE + given.format("b"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "not of one authority" in refused.stderr
