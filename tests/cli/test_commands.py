# SPDX-License-Identifier: Apache-2.0
"""The commands that look, steer and end."""

import json

import pytest
import sqlalchemy as sa

from abaca import __version__
from abaca.cli import exits
from abaca.cli.main import COMMANDS
from abaca.db import migrations
from abaca.db.attachments import attachment_counts
from abaca.db.catalog import quotas
from abaca.db.engine.database import Database
from abaca.db.journal import operations
from abaca.db.shares import share_instances
from abaca.db.tables import administration as administration_tables
from abaca.db.tables import shares as share_tables


def test_help_names_every_command(abaca):
    said = abaca("--help")
    assert said.status == 0
    assert all(f"  {name} " in said.out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(abaca, command):
    said = abaca(command, "--help")
    assert said.status == 0
    assert said.out.startswith("Usage:")


def test_the_version_is_told(abaca):
    assert abaca("--version").out == f"abaca, version {__version__}\n"


def test_an_unknown_command_is_refused(abaca):
    said = abaca("runn")
    assert said.status == 2
    assert "No such command 'runn'" in said.err


def test_config_check_shows_what_was_set_and_where(abaca, config):
    file = config("debug = yes\n")
    said = abaca("config", "check", "--config-file", file, "--json")
    assert said.status == 0
    assert {"section": "DEFAULT", "option": "debug", "value": "true", "source": f"{file}:4"} in json.loads(said.out)


def test_config_check_shows_defaults_when_asked(abaca, config):
    rows = json.loads(abaca("config", "check", "--config-file", config(), "--json", "--all").out)
    assert {"section": "worker", "option": "lease_s", "value": "30", "source": "default"} in rows


def test_config_check_shows_no_secret(abaca, config):
    file = config(
        "[database]\nconnection = postgresql://a:hush@db/x\n[keystone_authtoken]\npassword = hush\n"
        "token = hush\npasscode = hush\ncode = hush\naccess_token = hush\nclient_secret = hush\n"
        "memcached_servers = a:1,redis://x:hush@b:1\n"
    )
    for arguments in ((), ("--json",), ("--all",)):
        said = abaca("config", "check", "--config-file", file, *arguments)
        assert said.status == 0
        assert "hush" not in said.out + said.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hots = a\n", "unknown option hots in [DEFAULT]. Did you mean host?"),
        ("[dummy]\ndriver = dumy\n", "There is no driver 'dumy'. Did you mean 'dummy'?"),
        ("[dummy]\nno_such_option = 1\n", "[dummy] has no option 'no_such_option'"),
        ("osapi_share_listen = 0.0.0.0\n", "would make an administrator of all who reach 0.0.0.0"),
        ("auth_strategy = keystone\n", "auth_strategy = keystone needs the section [keystone_authtoken]"),
        ("log_file = /nowhere/abaca.log\n", "log_file = /nowhere/abaca.log cannot be written"),
        ("service_down_time = 10\n", "service_down_time = 10 is not above report_interval. Set it to at least 30"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(abaca, config, text, says):
    said = abaca("config", "check", "--config-file", config(text))
    assert said.status == exits.EX_CONFIG
    assert says in said.err
    assert said.err.count("\n") == 1


def test_a_database_is_made_upgraded_and_described(abaca, config):
    file = config()
    assert abaca("db", "version", "--config-file", file).status == exits.EX_CONFIG
    assert abaca("db", "upgrade", "--config-file", file).out == f"empty -> {migrations.HEAD}\n"
    assert abaca("db", "upgrade", "--config-file", file).out == f"The database is at revision {migrations.HEAD}.\n"
    assert f"at revision {migrations.HEAD}" in abaca("db", "version", "--config-file", file).out


def test_a_database_that_is_away_is_named_without_its_password(abaca, config):
    file = config("[database]\nconnection = postgresql://abaca:hush@127.0.0.1:1/abaca\n")
    for command in (("db", "upgrade"), ("operation", "list"), ("backend", "list")):
        said = abaca(*command, "--config-file", file)
        assert said.status == exits.EX_FAILED
        assert "does not answer" in said.err
        assert "hush" not in said.err


@pytest.fixture
def miscounted(abaca, config, tmp_path):
    """A configuration whose database counts a share and an attachment too many, and none in a pool that has one."""
    file = config()
    abaca("db", "upgrade", "--config-file", file)
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    with db.write() as tx:
        quotas.take(tx, "p", None, None, {"shares": 2, "gigabytes": 5}, {"shares": -1, "gigabytes": -1})
        times = {"created_at": tx.now, "service_host": "here@dummy", "name": "pool1", "capabilities": {}}
        tx.execute(sa.insert(administration_tables.pools), {"host": "here@dummy#pool1", **times})
        row = {"id": "s1", "project_id": "p", "size": 5, "share_proto": "NFS", "metadata": {}}
        tx.execute(sa.insert(share_tables.shares), {**row, "created_at": tx.now})
        share_instances.add(tx, {"id": "i1", "share_id": "s1", "host": "here@dummy#pool1"})
        attachment_counts.change(tx, 1)
    db.close()
    return file


def test_counts_are_shown_and_mended(abaca, miscounted):
    quota = {"project_id": "p", "scope": "project", "pool": None, "resource": "shares", "counted": 2, "real": 1}
    pool = {"project_id": None, "scope": None, "pool": "here@dummy#pool1", "resource": "gigabytes"}
    attached = {"project_id": None, "scope": None, "pool": None, "resource": "attachments", "counted": 1, "real": 0}
    wrong = [quota, {**pool, "counted": 0, "real": 5}, attached]
    recount = ("db", "recount", "--config-file", miscounted)
    assert json.loads(abaca(*recount, "--dry-run", "--json").out) == wrong
    assert "here@dummy#pool1" in abaca(*recount, "--dry-run").out
    assert json.loads(abaca(*recount, "--json").out) == wrong
    assert json.loads(abaca(*recount, "--json").out) == []
    assert abaca(*recount).out == "All counts are right.\n"


SHARE = "00000000-0000-4000-8000-%012d"


@pytest.fixture
def journal(abaca, config, tmp_path):
    """A configuration whose journal holds two operations: the file, and their ids."""
    file = config()
    abaca("db", "upgrade", "--config-file", file)
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    ids = []
    with db.write() as tx:
        for number in (1, 2):
            row = {"kind": "share-create", "queue": "here@dummy", "keys": [f"share:{number}"], "args": {}}
            ids.append(operations.add(tx, {**row, "resource_type": "share", "resource_id": SHARE % number}))
    db.close()
    return file, ids


def listed(abaca, file, *arguments):
    return json.loads(abaca("operation", "list", "--config-file", file, "--json", *arguments).out)


def test_operations_are_listed_newest_first_and_by_what_they_are_about(abaca, journal):
    file, (first, second) = journal
    assert [row["id"] for row in listed(abaca, file)] == [second, first]
    assert [row["id"] for row in listed(abaca, file, "--resource", SHARE % 1)] == [first]
    assert listed(abaca, file, "--kind", "share-delete") == []
    assert len(listed(abaca, file, "--limit", "1")) == 1
    assert "share-create" in abaca("operation", "list", "--config-file", file).out
    said = abaca("operation", "list", "--config-file", file, "--resource", "nothing")
    assert (said.status, said.out) == (1, "")
    assert "No share, attachment or server is called nothing" in said.err


def test_an_operation_is_shown_whole(abaca, journal):
    file, (first, _) = journal
    shown = json.loads(abaca("operation", "show", first, "--config-file", file, "--json").out)
    assert (shown["state"], shown["queue"], shown["step"]) == ("queued", "here@dummy", "create_on_backend")
    assert first in abaca("operation", "show", first, "--config-file", file).out


def test_an_operation_is_hurried_and_cancelled(abaca, journal):
    file, (first, _) = journal
    assert "runs as soon as" in abaca("operation", "retry", first, "--config-file", file).out
    assert "stops at its next step" in abaca("operation", "cancel", first, "--config-file", file).out
    assert json.loads(abaca("operation", "show", first, "--config-file", file, "--json").out)["cancel"] is True


@pytest.mark.parametrize("command", ["show", "retry", "cancel"])
def test_an_operation_that_is_not_there_is_refused(abaca, journal, command):
    said = abaca("operation", command, "nobody", "--config-file", journal[0])
    assert (said.status, said.err) == (exits.EX_FAILED, "abaca: Operation nobody could not be found.\n")


def test_back_ends_are_listed_with_what_waits_for_them(abaca, journal):
    rows = json.loads(abaca("backend", "list", "--config-file", journal[0], "--json").out)
    assert [(row["host"], row["state"], row["operations"]) for row in rows] == [("here@dummy", "new", {"queued": 2})]
