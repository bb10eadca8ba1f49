# SPDX-License-Identifier: Apache-2.0
"""What docs/operating/installing.md says of a PostgreSQL on another host, with a real one that speaks TLS."""

import os
import re
import shutil
import subprocess
import sys

import psycopg
import pytest

from lab import postgres
from tests.conftest import ROOT, wait_until
from tests.system.running import START_S

PAGE = (ROOT / "docs/operating/installing.md").read_text().partition("\n## Three hosts")[2].partition("\n## ")[0]
HOST = "database.example.org"
NEW_KEY = ("openssl", "req", "-newkey", "rsa:2048", "-nodes")
SIGN = ("openssl", "x509", "-req", "-copy_extensions", "copy")


@pytest.fixture(scope="module")
def server(run):
    """Who connects must speak TLS and know the password; the page's administrator is `boss`."""
    with postgres.Postgres(run) as server:
        made, data = run.path("tls"), run.path("postgres") / "data"
        made.mkdir(exist_ok=True)
        named = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}")
        key, authority = made / "ca.key", made / "ca.pem"
        commands = [
            [*NEW_KEY, "-x509", "-subj", "/CN=lab", "-keyout", key, "-out", authority],
            [*NEW_KEY, *named, "-keyout", data / "server.key", "-out", made / "server.csr"],
            [*SIGN, "-in", made / "server.csr", "-CA", authority, "-CAkey", key, "-out", data / "server.crt"],
        ]
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
        for name in ("server.key", "server.crt"):
            shutil.chown(data / name, "postgres")
            (data / name).chmod(0o600)
        with psycopg.connect(server.url(driver="postgresql"), autocommit=True) as connection:
            connection.execute("CREATE ROLE boss SUPERUSER LOGIN")
            connection.execute("ALTER SYSTEM SET ssl = on")
        trusted = "".join(f"host all {name} 127.0.0.1/32 trust\n" for name in ("boss", "abaca"))
        (data / "pg_hba.conf").write_text(f"{trusted}hostssl all all 127.0.0.1/32 scram-sha-256\n")
        server.restart("fast")
        yield server, authority


def test_three_hosts_share_a_database_that_is_made_and_named_as_the_page_says(server, started, tmp_path):
    """The lab's own user has the name that the page uses, so it is `files` here."""
    database, authority = server
    administrator = {"PGHOST": "127.0.0.1", "PGPORT": str(database.port), "PGUSER": "boss"}
    made = re.findall(r"`(create(?:user|db) [^`]*)`", PAGE)
    assert len(made) == 2
    for command in made:
        words = command.replace("abaca", "files").split()
        subprocess.run(words, env={**os.environ, **administrator}, input="secret\n" * 2, text=True, check=True)
    (line,) = re.findall(r"^connection = (.*)$", PAGE, re.MULTILINE)
    assert "=/etc/abaca/database-ca.pem" in line
    url = line.replace("abaca", "files").replace("/etc/files/database-ca.pem", str(authority))
    url = url.replace("PASSWORD", "secret").replace(f"{HOST}/", f"{HOST}:{database.port}/")
    there = {"OS_DATABASE__CONNECTION": f"{url}&hostaddr=127.0.0.1", "HOME": str(tmp_path)}
    upgrade = [sys.executable, "-m", "abaca", "db", "upgrade", "--state-path", str(tmp_path)]
    subprocess.run(upgrade, env={**os.environ, **there}, check=True)
    hosts = {}
    for name in ("api", "worker"):
        (tmp_path / name).mkdir()
        hosts[name] = started(name, directory=tmp_path / name, **there | {"OS_DEFAULT__HOST": name})
    wait_until(hosts["api"].answers, START_S)
    wait_until(lambda: '"state":"up"' in hosts["api"].get("/v2/os-services")[1].replace(" ", ""), START_S, 0.2)
    assert '"host":"worker@' in hosts["api"].get("/v2/os-services")[1].replace(" ", "")
