# SPDX-License-Identifier: Apache-2.0
"""What docs/operating/installing.md says of a PostgreSQL on another host, with a real one that speaks TLS."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import wait_until
from tests.system import tls_database
from tests.system.running import START_S


@pytest.fixture(scope="module")
def server(run):
    with tls_database.served(run) as served:
        yield served


def test_three_hosts_share_a_database_that_is_made_and_named_as_the_page_says(server, started, tmp_path):
    database, authority = server
    tls_database.make_files(database)
    (line,) = re.findall(r"^connection = (.*)$", tls_database.PAGE, re.MULTILINE)
    assert "=/etc/abaca/database-ca.pem" in line
    url = tls_database.with_names_of_here(line).replace("/etc/abaca/database-ca.pem", str(authority))
    url = url.replace(f"{tls_database.HOST}/", f"{tls_database.HOST}:{database.port}/")
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
