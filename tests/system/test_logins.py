# SPDX-License-Identifier: Apache-2.0
"""Wrong passwords, many at once, at a server as it is started."""

import concurrent.futures
import http.client
import statistics
import time

from abaca.http.users_file import hashed
from tests.http.test_passwords import environ


def test_sixty_wrong_logins_at_once_keep_nobody_waiting(started, tmp_path, figure):
    users = tmp_path / "users"
    users.write_text(f"ann:{hashed('right-right', 12).decode()}:p:member\n")
    users.chmod(0o640)
    settings = {"OS_DEFAULT__AUTH_STRATEGY": "http_basic", "OS_DEFAULT__HTTP_BASIC_AUTH_USER_FILE": str(users)}
    running = started(**settings).wait_until_it_answers()

    def guess(number):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        said = environ("ann", f"wrong{number}")["HTTP_AUTHORIZATION"]
        connection.request("GET", "/v2/shares", headers={"Authorization": said})
        status = connection.getresponse().status
        connection.close()
        return status

    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        guesses = [pool.submit(guess, number) for number in range(60)]
        took_s = []
        while not all(one.done() for one in guesses):
            begun = time.monotonic()
            assert running.get("/healthcheck")[0] == 200
            took_s.append(time.monotonic() - begun)
    figure("longest wait for /healthcheck beside 60 wrong logins", max(took_s) * 1000, "ms")
    assert {one.result() for one in guesses} <= {401, 429}
    # each guess that is checked costs a quarter of a second of a core: one after the other would be seen here
    assert len(took_s) > 10
    assert statistics.median(took_s) < 0.5
    assert max(took_s) < 10
