# SPDX-License-Identifier: Apache-2.0
"""Whatever fails behind the API is told to the users whose it is: each kind of operation, at each step at which it can.

What clients look for are Manila's ids and our sentences, so both stand here once more. A new kind stands in one of the
two tables: with what its users read, or with the reason why there is nobody to read it.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from abaca.db.tables.networks import share_servers
from abaca.db.tables.shares import share_instances
from abaca.drivers import contract
from abaca.networks.contract import NoAddress
from abaca.operations.registry import OPERATIONS
from tests.databases import fast_directory, place
from tests.operations import theatre as stage
from tests.operations.bench import Final
from tests.operations.cases import CASES
from tests.operations.moments import kind_of, names
from tests.operations.snapshot_cases import a_snapshot

QUESTION = "who asks is answered, and waits for that"
OF_BACK_END = "of a back end; shares that it loses are told of by themselves"
OF_SHARE_SERVER = "share servers are the administrators'; shares that suffer are told of by themselves"
# Kinds of which no project has anything to read messages about.
SILENT = {
    "attachment-explain": QUESTION,
    "backend-ensure": OF_BACK_END,
    "backend-ensure-dry-run": OF_BACK_END,
    "backend-reconcile": OF_BACK_END,
    "security-service-check": "a question: what cannot be found out is answered as not compatible",
    "server-check": QUESTION,
    "share-network-add-subnet": "each share server goes on alone, and its operation tells",
    "share-network-check": "a question: what cannot be found out is answered as not compatible",
    "share-network-look": QUESTION,
    "share-server-delete": OF_SHARE_SERVER,
    "share-server-manage": OF_SHARE_SERVER,
    "share-server-mend": OF_SHARE_SERVER,
    "share-server-unmanage": OF_SHARE_SERVER,
}

UNEXPECTED = "Something unexpected went wrong; give the administrator the request id."
NO_ROOM = "No storage could be allocated for this share request"
NOT_TAKEN_OVER = "It could not be taken over and is as it was on the back end; release it, and try again."
NOT_GIVEN_UP = "The back end could not let go of it; its data is as it was. Release it once more."
NOT_ON_SERVER = "The share is not on the server as it shall be; this is tried again with growing pauses."
STILL_ON_SERVER = "The share is still on the server; this is tried again with growing pauses."
NO_SERVER = "No share server could be found or made for the share."


def itself(_theatre, _prepared, subject):
    """The message is about what the operation is about."""
    return subject


def first(_theatre, prepared, _subject):
    """About the first of what was prepared."""
    return prepared[0]


def second(_theatre, prepared, _subject):
    return prepared[1]


def attached(theatre, _prepared, subject):
    """About the share of an attachment."""
    return theatre.ask("GET", f"//abaca/v1/attachments/{subject}")["attachment"]["share_id"]


def wanted(theatre, _prepared, subject):
    """About a share of a cluster."""
    return theatre.ask("GET", f"//abaca/v1/clusters/{subject}")["cluster"]["shares"][0]["id"]


def newest_subnet(theatre, _prepared, subject):
    """About the subnet that came last to the share network of a share server."""
    with theatre.db.read() as tx:
        network_id = tx.scalar(sa.select(share_servers.c.share_network_id).where(share_servers.c.id == subject))
    found = theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]
    return max(found, key=lambda one: (one["ip_version"] == 6, one["created_at"]))["id"]


def waiting(theatre, prepared, _subject):
    """About the share that waits for a share server of the network."""
    with theatre.db.read() as tx:
        on_network = share_instances.c.share_network_id == prepared
        return tx.scalar(sa.select(share_instances.c.share_id).where(on_network))


class Told(NamedTuple):
    """What is read: Manila's ids, the sentence, about which type of thing, and which one."""

    action: str
    detail: str
    text: str
    type: str = "SHARE"
    of: Callable[..., Any] = itself
    who: str = "member"


SNAPSHOT, SUBNET = "SHARE_SNAPSHOT", "SHARE_NETWORK_SUBNET"
TOLD = {
    "access-rules-sync": Told("010", "001", f"apply access rules: {UNEXPECTED}"),
    "attachment-attach": Told("901", "901", f"attach to a server: {NOT_ON_SERVER}", of=attached),
    "attachment-detach": Told("902", "902", f"detach from a server: {STILL_ON_SERVER}", of=attached),
    "attachment-verify": Told("901", "901", f"attach to a server: {NOT_ON_SERVER}", of=attached),
    "cluster-change": Told("901", "901", f"attach to a server: {NOT_ON_SERVER}", of=wanted),
    "cluster-delete": Told("902", "902", f"detach from a server: {STILL_ON_SERVER}", of=wanted),
    "instance-mend": Told("005", "001", f"update: {UNEXPECTED}"),
    "share-clone": Told("002", "017", "create: The back end could not make the share from the snapshot."),
    "share-create": Told("002", "001", f"create: {UNEXPECTED}"),
    "share-delete": Told("007", "001", f"delete: {UNEXPECTED}"),
    "share-extend": Told("008", "015", "extend: The back end could not extend the share; its size is unchanged."),
    "share-instance-delete": Told("007", "001", f"delete: {UNEXPECTED}"),
    "share-manage": Told("903", "903", f"take under management: {NOT_TAKEN_OVER}"),
    "share-revert": Told("006", "001", f"revert to a snapshot: {UNEXPECTED}"),
    "share-server-add-subnet": Told("002", "001", f"create: {UNEXPECTED}", SUBNET, newest_subnet),
    "share-server-create": Told("002", "004", f"create: {NO_SERVER}", of=waiting),
    "share-server-join": Told(
        "011", "001", f"add or update a security service: {UNEXPECTED}", "SECURITY_SERVICE", second
    ),
    "share-server-remove-subnet": Told("007", "001", f"delete: {UNEXPECTED}", SUBNET, newest_subnet),
    "share-server-update-subnet": Told(
        "027", "030", "update metadata: The back end could not apply the metadata.", SUBNET, newest_subnet
    ),
    "share-shrink": Told(
        "009", "019", "shrink: The back end could not shrink the share, or cannot shrink shares at all."
    ),
    "share-transfer": Told("026", "001", f"accept a transfer: {UNEXPECTED}", who="other"),
    "share-unmanage": Told("904", "904", f"release from management: {NOT_GIVEN_UP}"),
    "snapshot-access-sync": Told("010", "001", f"apply access rules: {UNEXPECTED}", SNAPSHOT),
    "snapshot-create": Told("002", "001", f"create: {UNEXPECTED}", SNAPSHOT),
    "snapshot-delete": Told("007", "001", f"delete: {UNEXPECTED}", SNAPSHOT),
    "snapshot-manage": Told("903", "903", f"take under management: {NOT_TAKEN_OVER}", SNAPSHOT),
    "snapshot-mend": Told("007", "001", f"delete: {UNEXPECTED}", SNAPSHOT),
    "snapshot-unmanage": Told("904", "904", f"release from management: {NOT_GIVEN_UP}", SNAPSHOT),
}

FULL, REFUSED = contract.Full(reason="on purpose"), contract.Refused(reason="on purpose")
NO_ADDRESS = NoAddress(id="blue", reason="on purpose")
# What is told of errors that say more: by the step, of which case, and the error.
TOLD_OF = {
    ("share-create", "create_on_backend", FULL): Told(
        "002", "009", f"create: {NO_ROOM}: no pool has enough capacity left."
    ),
    ("share-server-create", "take_addresses", NO_ADDRESS): Told(
        "002", "033", "create: The share network's subnet has no free addresses left.", of=waiting
    ),
    ("share-server-add-subnet", "take_addresses", NO_ADDRESS): Told(
        "002", "033", "create: The share network's subnet has no free addresses left.", SUBNET, newest_subnet
    ),
    ("share-server-join", "join", REFUSED): Told(
        "011",
        "022",
        "add or update a security service: The back end does not support this kind of security service.",
        "SECURITY_SERVICE",
        second,
    ),
    ("share-shrink", "shrink_on_backend", REFUSED): Told(
        "009", "018", "shrink: More is stored in the share than the new size holds; nothing was changed."
    ),
}


def steps_that_fail():
    """Each step of each case after which there is a way back, before it is begun; the last one within it."""
    for case in sorted(CASES):
        what = OPERATIONS[kind_of(case)]
        if kind_of(case) in SILENT:
            continue
        *_, last = able = names(what)[: what.pivot]
        for step in able:
            if step in (CASES[case].steps or able):
                yield case, f"{what.kind}:{step}:{'inside' if step == last else 'before'}"


@contextlib.contextmanager
def a_theatre(**more):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(fast_directory())
        database = place("sqlite", directory, None)
        stack.callback(database.close)
        yield stage.Theatre(database, directory, None, stack, **more)


@pytest.fixture(scope="module")
def theatre():
    with a_theatre(makes_servers=True) as made:
        yield made


@pytest.fixture
def strict():
    """One whose back end lets in addresses only."""
    with a_theatre(driver="dummy\naccess_types = ip") as made:
        yield made


def fail(theatre, case, point, error):
    """Have a case fail so, as often as it is tried; what was prepared, and which resource it is about."""

    def raise_there(reached):
        if reached == point:
            raise error

    theatre.ensure_actor()
    prepared = CASES[case].prepare(theatre)
    theatre.leave()
    subject = CASES[case].request(theatre, prepared)
    theatre.enter(arms=raise_there)
    assert theatre.until_ended(kind_of(case), subject).state == "failed"
    theatre.settle()
    theatre.leave()
    return prepared, subject


def check(theatre, told, prepared, subject, because="on purpose"):
    resource_id = told.of(theatre, prepared, subject)
    asked = f"/messages?resource_type={told.type}&resource_id={resource_id}"
    found = theatre.ask("GET", asked, who=told.who)["messages"]
    assert (told.action, told.detail) in {(one["action_id"], one["detail_id"]) for one in found}, found
    (read, *_) = (one for one in found if (one["action_id"], one["detail_id"]) == (told.action, told.detail))
    assert read["message_level"] == "ERROR"
    assert read["user_message"].startswith(told.text)
    assert because in read["user_message"], "and it says what was special about this case"


def test_every_kind_tells_its_users_or_says_why_not():
    assert TOLD.keys() | SILENT.keys() == OPERATIONS.keys()
    assert TOLD.keys().isdisjoint(SILENT)


@pytest.mark.parametrize(("case", "point"), list(steps_that_fail()), ids=str)
def test_what_fails_is_told(theatre, case, point):
    prepared, subject = fail(theatre, case, point, Final(reason="on purpose"))
    check(theatre, TOLD[kind_of(case)], prepared, subject)


@pytest.mark.parametrize(("case", "step", "error"), list(TOLD_OF), ids=str)
def test_what_is_known_of_a_failure_is_told_as_that(theatre, case, step, error):
    prepared, subject = fail(theatre, case, f"{kind_of(case)}:{step}:before", error)
    check(theatre, TOLD_OF[case, step, error], prepared, subject)


def test_a_rule_that_the_back_end_does_not_take_is_told(strict):
    """Its operation does not fail: all other rules are in force."""
    strict.ensure_actor()
    text = "apply access rules: The back end does not support the type or level of one of the rules."
    share_id, snapshot_id = a_snapshot(strict)
    body = {"allow_access": {"access_type": "user", "access_to": "alice"}}
    for path, kind, resource_id in (("shares", "SHARE", share_id), ("snapshots", SNAPSHOT, snapshot_id)):
        strict.ask("POST", f"/{path}/{resource_id}/action", body)
        strict.settle()
        told = Told("010", "021", text, kind)
        check(strict, told, None, resource_id, because="no access by user here")


def test_a_share_without_a_type_is_told(strict):
    """There is no operation: nobody was asked."""
    strict.ask("DELETE", f"/types/{type_id(strict, 'default')}", who="admin")
    made = strict.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}})["share"]
    assert strict.status(made["id"]) == "error"
    text = "create: No share type was given and no default share type is configured; name one."
    check(strict, Told("002", "024", text), None, made["id"], because="name one")


def type_id(theatre, name):
    found = theatre.ask("GET", "/types", who="admin")["share_types"]
    return next(one["id"] for one in found if one["name"] == name)
