# SPDX-License-Identifier: Apache-2.0
"""Attachments of shares whose storage knows its clients by certificates, on paper."""

import datetime

import pytest
import sqlalchemy as sa
from cryptography import x509

from abaca.db.tables.shares import export_locations
from abaca.domain.attachments import clients
from abaca.domain.ids import new_id
from abaca.drivers.authority import Authority
from abaca.nodes import paper
from tests.operations import cases
from tests.operations import theatre as stage

DOOR = "//abaca/v1/attachments"


@pytest.fixture
def theatre(theatre):
    """With a healthy worker; at the end nothing is left that no attachment explains."""
    theatre.enter()
    yield theatre
    theatre.settle()
    with theatre.db.read() as tx:
        assert [*stage.stuck(tx), *stage.left_on_servers(tx, theatre.nodes)] == []


@pytest.fixture
def prepared(theatre):
    """A share that is sealed, and a server."""
    return cases.a_share_and_a_server(theatre, "GLUSTERFS")


def refused(theatre, prepared, **more):
    """Why such an attachment is not accepted."""
    share_id, server_id = prepared
    wish = {"attachment": {"share_id": share_id, "server_id": server_id, **more}}
    answer = theatre.world.ask("member", "POST", DOOR, wish)
    assert answer.status == 400, answer
    (said,) = answer.body.values()
    return said["message"]


def rules(theatre, share_id):
    """Type, client and level of the share's rules."""
    found = theatre.ask("GET", f"/share-access-rules?share_id={share_id}")["access_list"]
    return [(one["access_type"], one["access_to"], one["access_level"]) for one in found]


def sheets(theatre):
    """All machines on paper."""
    with paper.opened(theatre.nodes._state_file) as records:
        return list(records.all(paper.SHEET).values())


def test_a_server_is_let_in_by_its_certificate_and_has_nothing_left_at_the_end(theatre, prepared):
    share_id, server_id = prepared
    name = clients.certificate_name(server_id)
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    shown = theatre.ask("GET", f"{DOOR}/{attachment_id}")["attachment"]
    assert (shown["state"], shown["addresses"]) == ("active", [name])
    assert rules(theatre, share_id) == [("cert", name, "rw")]
    (sheet,) = [one for one in sheets(theatre) if one["certified"]]
    made, authority = (x509.load_pem_x509_certificate(one.encode()) for one in sheet["certificates"])
    made.verify_directly_issued_by(authority)
    assert made.subject.rfc4514_string() == f"CN={name}"
    assert [point["fstype"] for pile in sheet["mounts"].values() for point in pile] == ["fuse.glusterfs"]

    cases.detach(theatre, attachment_id)
    theatre.until_ended("attachment-detach", attachment_id)
    theatre.settle()
    assert theatre.nodes.certified() == set()
    assert rules(theatre, share_id) == []


def test_a_rule_that_a_user_made_for_the_certificate_serves_and_stays(theatre, prepared):
    share_id, server_id = prepared
    name = clients.certificate_name(server_id)
    wish = {"allow_access": {"access_type": "cert", "access_to": name, "access_level": "rw"}}
    theatre.ask("POST", f"/shares/{share_id}/action", wish)
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    assert rules(theatre, share_id) == [("cert", name, "rw")]
    cases.detach(theatre, attachment_id)
    theatre.until_ended("attachment-detach", attachment_id)
    theatre.settle()
    assert rules(theatre, share_id) == [("cert", name, "rw")]


def test_a_server_that_is_registered_again_takes_its_share_over_under_its_new_name(theatre, prepared):
    share_id, server_id = prepared
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    server = theatre.ask("GET", f"//abaca/v1/servers/{server_id}")["server"]
    theatre.world.ask("admin", "DELETE", f"//abaca/v1/servers/{server_id}")
    theatre.settle()
    again = cases.a_server(theatre, server["addresses"][0]["ip"])
    made = cases.until_attached(theatre, cases.attach(theatre, (share_id, again)))
    (sheet,) = [one for one in sheets(theatre) if one["certified"]]
    assert (sheet["identity"], sheet["certified"]) == (clients.certificate_name(again), [made])
    assert made != attachment_id
    assert rules(theatre, share_id) == [("cert", clients.certificate_name(again), "rw")]


def test_verifying_keeps_what_is_well(theatre, prepared):
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    cases.verify(theatre, attachment_id)
    theatre.settle()
    assert theatre.ask("GET", f"{DOOR}/{attachment_id}")["attachment"]["state"] == "active"


def test_a_server_whose_certificate_ends_soon_gets_another_and_stays_mounted(theatre, prepared, tmp_path):
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    (sheet,) = [one for one in sheets(theatre) if one["certified"]]
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2000)
    authority = Authority(tmp_path / "ca.pem", tmp_path / "ca.key", now=lambda: then)
    authority.make()
    old = authority.sign(sheet["request"], sheet["identity"])
    with paper.opened(theatre.nodes._state_file) as records:
        (id,) = [id for id, one in records.all(paper.SHEET).items() if one["certified"]]
        records.put(paper.SHEET, id, sheet | {"certificates": [old, sheet["certificates"][1]]})
    cases.verify(theatre, attachment_id)
    theatre.settle()
    (now,) = [one for one in sheets(theatre) if one["certified"]]
    assert now["certificates"][0] not in {old, ""}
    assert (now["mounts"], now["certificates"][1]) == (sheet["mounts"], sheet["certificates"][1])
    assert theatre.ask("GET", f"{DOOR}/{attachment_id}")["attachment"]["state"] == "active"


def test_a_mount_that_stays_is_told_of_other_nodes_when_it_is_verified(theatre, prepared):
    """The node that it mounts from serves on; which others it may ask after a boot is written on the machine."""
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, prepared))
    (before,) = [one for one in sheets(theatre) if one["certified"]]
    with theatre.db.write() as tx:
        first = tx.rows(sa.select(export_locations).where(export_locations.c.is_admin_only.is_(False)))[0]._mapping
        path = "10.9.9.9:/" + first["path"].rpartition("/")[2]
        there = {**first, "id": new_id(), "path": path, "preferred": False}
        tx.execute(sa.insert(export_locations), there)
    cases.verify(theatre, attachment_id)
    theatre.settle()
    (now,) = [one for one in sheets(theatre) if one["certified"]]
    assert "backup-volfile-servers=10.0.0.20:10.9.9.9," in str(now["kept"])
    assert "backup-volfile-servers=10.0.0.20," in str(before["kept"])
    assert now["mounts"] == before["mounts"]
    assert theatre.ask("GET", f"{DOOR}/{attachment_id}")["attachment"]["state"] == "active"
    mended = len(theatre.operations("attachment-attach"))
    cases.verify(theatre, attachment_id)
    theatre.settle()
    assert len(theatre.operations("attachment-attach")) == mended


def test_it_is_written_only_as_storages_can_let_certificates_in(theatre, prepared):
    assert "access_level rw" in refused(theatre, prepared, access_level="ro")
    assert "mode network" in refused(theatre, prepared, mode="virtiofs")
