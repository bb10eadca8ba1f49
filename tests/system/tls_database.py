# SPDX-License-Identifier: Apache-2.0
"""The PostgreSQL of docs/operating/installing.md: on a host of its own, with TLS, made as the page says."""

import contextlib
import os
import re
import shutil
import subprocess

import psycopg

from lab import postgres
from tests.conftest import ROOT

PAGE = (ROOT / "docs/operating/installing.md").read_text().partition("\n## Three hosts")[2].partition("\n## ")[0]
HOST = "database.example.org"
NEW_KEY = ("openssl", "req", "-newkey", "rsa:2048", "-nodes")
SIGN = ("openssl", "x509", "-req", "-copy_extensions", "copy")


@contextlib.contextmanager
def served(run):
    """The server and the file of the authority that signed its certificate.

    Who connects must speak TLS and know the password; the page's administrator is `boss`.
    """
    with postgres.Postgres(run) as server:
        made, data = run.path("tls"), run.path("postgres") / "data"
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


def make_files(server):
    """Make the page's database by its commands.

    The lab's own user has the name that the page uses, so user and database are `files` here.
    """
    administrator = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "boss"}
    made = re.findall(r"`(create(?:user|db) [^`]*)`", PAGE)
    assert len(made) == 2
    for command in made:
        words = command.replace("abaca", "files").split()
        subprocess.run(words, env={**os.environ, **administrator}, input="secret\n" * 2, text=True, check=True)


def with_names_of_here(configuration):
    """What the page writes, as it is for the database that `make_files` made."""
    return configuration.replace("//abaca:PASSWORD@", "//files:secret@").replace("/abaca?", "/files?")
