# SPDX-License-Identifier: Apache-2.0
"""Whoever may not do what they ask for is told so before their body has come."""

import socket

import pytest

from tests.api import world as worlds
from tests.cli.test_remote import served

HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{authorization}"
    "Content-Length: 100\r\n\r\n{{"
)


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    with worlds.world(tmp_path_factory.mktemp("strangers"), worker=False) as world, served(world.application) as port:
        yield world, port


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("none", "/v2/types", 401),
        ("none", "/abaca/v1/servers", 401),
        ("none", "/v2/shares/x/action", 401),
        ("reader", "/v2/types", 403),
        ("member", "/abaca/v1/servers", 403),
        ("member", "/v2/nosuch", 404),
    ],
)
def test_a_body_is_not_waited_for(there, who, path, status):
    world, port = there
    said = f"Authorization: {world.passwords[who]}\r\n" if who != "none" else ""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(HEAD.format(path=path, authorization=said).encode())
        assert int(connection.recv(100).split()[1]) == status
