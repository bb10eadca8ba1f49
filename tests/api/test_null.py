# SPDX-License-Identifier: Apache-2.0
"""What is sent as null is taken: it empties what can be empty, and is refused where nothing can be.

The cases are those of the routes: every PUT and PATCH of every door, and each field of its body that may be null.
"""

import dataclasses
import typing

import pytest

from abaca.http import bodies, wire
from tests.api import seeds
from tests.api.test_surface import ALL, asked, is_newest, newest, start

# What is shown under another name than it is sent, by path and field.
SHOWN = {
    ("/shares/{id}", "display_name"): "name",
    ("/shares/{id}", "display_description"): "description",
    ("/snapshots/{id}", "display_name"): "name",
    ("/snapshots/{id}", "display_description"): "description",
}
# What these may be set to before they are emptied; all others take any text.
TEXTS = {
    "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "key": "file:/etc/abaca/keys/id",
    "qmp_socket": "/run/guest.qmp",
    "network": "10.0.0.0/16",
    "ssh_host": "10.0.0.9",
}
# What needs another server beside it.
NOT_ALONE = {"hypervisor_id", "qmp_socket"}
CHANGES = [route for route in ALL if route.method in ("PUT", "PATCH") and route.body is not None and is_newest(route)]
KNOWN = [
    (route, field)
    for route in CHANGES
    if route.body is not bodies.Anything
    for field in wire.fields_of(route.body)
    if field.known(newest(route))
]


def may_be_null(field):
    return type(None) in typing.get_args(field.type)


def named(one):
    return one.name if hasattr(one, "method") else one.attr


@pytest.mark.parametrize(("route", "field"), KNOWN, ids=named)
def test_a_field_that_may_be_null_can_be_told_from_one_that_was_not_sent(route, field):
    default = next(one.default for one in dataclasses.fields(route.body) if one.name == field.attr)
    assert default in (bodies.UNSET, dataclasses.MISSING) or not (default is None or may_be_null(field))


@pytest.mark.parametrize(("route", "field"), KNOWN, ids=named)
def test_null_empties_what_can_be_empty_and_is_refused_elsewhere(planted, route, field):
    path = start(route) + seeds.filled(route.path, planted.things)
    name = field.name(newest(route))
    key = route.body.KEYS[0] if route.body.KEYS else None
    rest = {"host": "testhost@alpha", "binary": "manila-share"} if "/services/" in route.path else {}

    def put(value):
        said = {**rest, name: value}
        return planted.ask("admin", route.method, path, {key: said} if key else said, **asked(route))

    if not may_be_null(field):
        assert put(None).status == 400
        return
    if name not in NOT_ALONE:
        assert put(TEXTS.get(name, "something")).status in (200, 202)
    answer = put(None)
    assert answer.status in (200, 202), answer.body
    under = key or getattr(route.view, "key", None)
    shown = answer.body[under] if under else answer.body
    assert shown[SHOWN.get((route.path, name), name)] is None


def test_an_empty_change_of_a_share_changes_nothing(planted, unchanged):
    path = seeds.filled("/shares/{id}", planted.things)
    assert planted.ask("admin", "PUT", path, {"share": {}}, **asked(CHANGES[0])).status == 200
