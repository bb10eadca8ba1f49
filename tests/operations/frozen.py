# SPDX-License-Identifier: Apache-2.0
"""A worker process that is frozen inside a call of its driver, before the effect; thawed, it goes on as if nothing was.

How the kinds of operations come on after that is told here too: what their user does next, once another worker has
done the work.
"""

from pathlib import Path

import msgspec

from abaca.drivers import wrappers
from abaca.journal.worker import Timing
from abaca.operations.attachments.attachment_parts import QUEUE
from abaca.operations.parts import backends_of
from tests.conftest import wait_until
from tests.operations import cases, server_takeover, takeover
from tests.operations import theatre as stage

# Calls that no operation makes.
OF_THE_WORKER = ("start", "stop", "pools", "backend_info", "change", "contents", "close")


class Freezing:
    """Goes around a driver: at the `number`th call that an operation makes it waits, to be stopped and thawed there.

    `gate` is a named pipe, `notes` a file of what happens.
    """

    def __init__(self, number, gate, notes):
        self.left = number
        self.gate = Path(gate)
        self.notes = Path(notes)
        self.is_ready = lambda: True
        self.end = lambda: None

    def __call__(self, name, call):
        if name in OF_THE_WORKER:
            return call()
        self.left -= 1
        if self.left:
            return call()
        wait_until(self.is_ready, every_s=0.002)
        self.note(f"{name} begins")
        self.gate.read_text()
        self.end()  # it begins nothing more
        try:
            return call()
        finally:
            self.note(f"{name} has returned")

    def note(self, line):
        with self.notes.open("a") as file:
            file.write(f"{line}\n")


class Around:
    """The hands on machines, whose calls go through a `Freezing`."""

    def __init__(self, nodes, freezing):
        self.nodes = nodes
        self.freezing = freezing

    def __getattr__(self, name):
        whole = getattr(self.nodes, name)
        return lambda *args, **more: self.freezing(name, lambda: whole(*args, **more))


def play(config, name, freezes, arms, timing, at="back ends"):
    """The life of that process; `freezes` are the arguments of `Freezing`, `at` says of whose calls."""
    worker = stage.make_worker(stage.known_stage(config), name, msgspec.convert(timing, Timing))
    freezing = Freezing(**freezes)
    freezing.is_ready = lambda: all(one.is_started for one in worker.queues.values())
    freezing.end = worker.stop
    if at == "machines":
        hands = worker.queues[QUEUE].parts
        hands.nodes = Around(hands.nodes, freezing)
    else:
        for back_end in backends_of(worker.queues.values()).values():
            back_end.parts.driver = wrappers.wrap(back_end.parts.driver, freezing)
    worker.faults = stage.Arms({point: stage.ACTIONS[action] for point, action in arms.items()})
    worker.run()


def share_of(kind, prepared, subject):
    """The id of the share that a case is about, whatever its operation is about."""
    if kind == "share-manage":
        return subject
    found = prepared if prepared is not None else subject
    return found if isinstance(found, str) else found[0]


def resize(theatre, share_id, **action):
    theatre.ask("POST", f"/shares/{share_id}/action", action)
    theatre.settle()


def delete(theatre, share_id):
    cases.delete(theatre, share_id)


def grow(theatre, share_id):
    resize(theatre, share_id, extend={"new_size": 7})


def shrink(theatre, share_id):
    resize(theatre, share_id, shrink={"new_size": 1})


def deny(theatre, share_id):
    """Nobody is let in any more."""
    for rule in theatre.ask("GET", f"/share-access-rules?share_id={share_id}")["access_list"]:
        theatre.ask("POST", f"/shares/{share_id}/action", {"deny_access": {"access_id": rule["id"]}})


def nothing(theatre, share_id):
    """It is gone, or nothing was done with it."""


def give_up(theatre, share_id):
    """What could not be taken over is released."""
    takeover.unmanage(theatre, share_id)


def reset_and_grow(theatre, share_id):
    """An administrator says that it is well, and it grows."""
    reset = {"reset_status": {"status": "available"}}
    theatre.ask("POST", f"/shares/{share_id}/action", reset, who="admin")
    grow(theatre, share_id)


def delete_clones(theatre, share_id):
    """What was made from its snapshots."""
    for one in theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]:
        for made in theatre.ask("GET", f"/shares?snapshot_id={one['id']}")["shares"]:
            delete(theatre, made["id"])


def deny_snapshots(theatre, share_id):
    """Nobody can mount its snapshots any more."""
    for one in theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]:
        for rule in theatre.ask("GET", f"/snapshots/{one['id']}/access-list")["snapshot_access_list"]:
            path = f"/snapshots/{one['id']}/action"
            theatre.ask("POST", path, {"deny_access": {"access_id": rule["id"]}})


def delete_snapshots(theatre, share_id):
    """What there is of it, and then the share grows."""
    for one in theatre.ask("GET", f"/snapshots?share_id={share_id}")["snapshots"]:
        theatre.ask("POST", f"/snapshots/{one['id']}/action", {"force_delete": None}, who="admin")
    grow(theatre, share_id)


def share_servers(theatre):
    return theatre.ask("GET", "/share-servers", who="admin")["share_servers"]


def leave_servers(theatre, _prepared):
    """All shares on share servers go, and then these."""
    servers = share_servers(theatre)
    for server in servers:
        for share in theatre.ask("GET", f"/shares?all_tenants=1&share_server_id={server['id']}", who="admin")["shares"]:
            cases.delete(theatre, share["id"])
    theatre.settle()
    for server in servers:
        theatre.ask("DELETE", f"/share-servers/{server['id']}", who="admin")
    theatre.settle()


def release_servers(theatre, _prepared):
    """What could not be taken over is released."""
    for server in share_servers(theatre):
        if server["status"] == "manage_error":
            server_takeover.release(theatre, server["id"])
    theatre.settle()


def mend_servers(theatre, _prepared):
    """An administrator has those serve that have failed."""
    for server in share_servers(theatre):
        cases.mend_share_server(theatre, server["id"])
    theatre.settle()


# What is prepared, and the request, where those of the case have other work done as well.
PREPARE = {"share-server-remove-subnet": lambda theatre: cases.a_share_on_two_subnets(theatre)[0]}
REQUEST = {"share-server-create": cases.new_lone_share_server}
# Which call is the first on the way back, where that is not the second.
FIRST_BACK = {
    "share-clone": 4,
    "share-manage": 3,
    "share-revert": 4,
    "share-server-manage": 3,
    "share-server-mend": 3,
    "snapshot-create": 3,
    "snapshot-manage": 3,
}
# By kind: what its user does next when it has succeeded, and when it has failed and gone back.
NEXT = {
    "access-rules-sync": (deny, None),
    "backend-ensure": (grow, None),
    "backend-ensure-dry-run": (grow, None),
    "backend-reconcile": (grow, None),
    "instance-mend": (grow, None),
    "share-clone": (delete_clones, delete_clones),
    "share-create": (delete, delete),
    "share-delete": (nothing, None),
    "share-instance-delete": (grow, None),
    "share-extend": (shrink, reset_and_grow),
    "share-manage": (grow, give_up),
    "share-revert": (grow, reset_and_grow),
    "share-shrink": (grow, reset_and_grow),
    "snapshot-access-sync": (deny_snapshots, None),
    "snapshot-create": (delete_snapshots, delete_snapshots),
    "snapshot-delete": (grow, None),
    "snapshot-manage": (delete_snapshots, delete_snapshots),
    "snapshot-mend": (grow, None),
    "snapshot-unmanage": (grow, None),
    "security-service-check": (nothing, None),
    "share-network-check": (nothing, None),
    "share-network-add-subnet": (leave_servers, None),
    "share-server-add-subnet": (leave_servers, mend_servers),
    "share-server-create": (leave_servers, mend_servers),
    "share-server-delete": (nothing, None),
    "share-server-join": (leave_servers, None),
    "share-server-manage": (leave_servers, release_servers),
    "share-server-mend": (leave_servers, mend_servers),
    "share-server-remove-subnet": (leave_servers, mend_servers),
    "share-server-unmanage": (nothing, None),
    "share-server-update-subnet": (leave_servers, None),
    "share-network-look": (nothing, None),
    "share-transfer": (nothing, None),
    "share-unmanage": (nothing, None),
}


def detach(theatre, attachment_id):
    """It is wanted no more."""
    cases.detach(theatre, attachment_id)


def try_again(theatre, attachment_id):
    """It is tried again, and has come."""
    cases.verify(theatre, attachment_id)
    theatre.settle()
    assert theatre.ask("GET", f"//abaca/v1/attachments/{attachment_id}")["attachment"]["state"] == "active"


def attach_again(theatre, attachment_id):
    """Another attachment of the same share stands in its place."""
    theatre.ask("POST", "//abaca/v1/attachments", {"attachment": theatre.attached})


# What begins and ends attachments, whose own operations go to the machines.
IN_THE_DATABASE = {"cluster-change", "cluster-delete"}
# By case of a kind that works on machines: which call is frozen, and what its user does next when it has succeeded; and
# the same of the way back, where that leads to the machine.
ON_MACHINES = {
    "attachment-attach": ((1, detach), None),
    "attachment-attach by address": ((1, detach), (2, try_again)),
    "attachment-attach virtiofs": ((1, detach), (2, try_again)),
    "attachment-detach": ((1, attach_again), None),
    "attachment-detach virtiofs": ((1, attach_again), None),
    "attachment-explain": ((1, detach), None),
    "attachment-verify": ((1, detach), None),
    "server-check": ((1, nothing), None),
}
