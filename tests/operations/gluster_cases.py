# SPDX-License-Identifier: Apache-2.0
"""How operations come about on a back end of the driver `glusterfs`, and what its doubles hold afterwards."""

import sqlalchemy as sa

from abaca.db.tables.shares import export_locations
from abaca.drivers.glusterfs.volumes import usable_gib
from lab import gluster_bed
from tests.operations import takeover
from tests.operations import theatre as stage
from tests.operations.cases import (
    Case,
    a_share,
    a_share_and_a_server,
    act,
    attach,
    delete,
    detach,
    extend,
    mend,
    nothing,
    reconcile,
    revert,
    shrink,
    until_attached,
)
from tests.operations.ensure_cases import ensure
from tests.operations.snapshot_cases import COUNTED, delete_snapshot, take_snapshot

PROTOCOL = "GLUSTERFS"
POOL = "testhost@alpha#gold"
# Shares of all cases have room beside each other.
DEVICE_GIB = 1_000_000
GIB = 1 << 30


class GlusterTheatre(stage.Theatre):
    """A theatre whose back end is that of the driver `glusterfs` over a bed of doubles."""

    def __init__(self, place, directory, nursery, stack):
        self.bed = gluster_bed.Bed(directory / "bed", device_gib=DEVICE_GIB)
        stack.callback(self.bed.close)
        super().__init__(place, directory, nursery, stack, "glusterfs")
        self.only = None
        self.drivers = [Held(self.bed)]
        able = {f"{verb}_support": "True" for verb in ("snapshot", "create_share_from_snapshot", "revert_to_snapshot")}
        kept = {"share_type": {"name": "kept", "extra_specs": {stage.DHSS: "False", **able}}}
        self.ask("POST", "/types", kept, who="admin")

    def with_driver(self, written, driver):
        more = self.bed.section() | {"clusters": f"gold:{self.bed.cluster}", "snapshots_per_share": "2"}
        section = "".join(f"{name} = {value}\n" for name, value in more.items())
        return f"{written.partition('[alpha]')[0]}[alpha]\ndriver = {driver}\n{section}"

    def check(self, operation):
        left = [line for line in self.left() if line not in self.told]
        self.told.update(left)
        return [*super().check(operation), *left]

    def left(self):
        """What Heketi and the nodes hold that belongs to no volume, and volumes that whoever likes can reach."""
        bed, heketi = self.bed, self.bed.heketi
        names = {one["name"] for one in heketi.volumes.values()}
        found = [f"leaked: Heketi hides {one['name']}" for one in heketi.hidden.values()]
        found += [f"leaked: Heketi is at {one.kind}" for one in heketi.works.values()]
        found += [f"leaked: gluster has {name} without Heketi" for name in bed.gluster.volumes.keys() - names]
        found += [f"leaked: Heketi has {name} without gluster" for name in names - bed.gluster.volumes.keys()]
        bricks = [brick for node in heketi.nodes.values() for device in node["devices"] for brick in device["bricks"]]
        found += [f"leaked: a brick of {one['volume']}" for one in bricks if one["volume"] not in heketi.volumes]
        found += [f"leaked: {copy}, of a copy" for copy in bed.nodes.copies()]
        found += [f"anybody reaches {name}" for name, volume in bed.gluster.volumes.items() if volume.is_open]
        for host in bed.nodes.hosts:
            files = {one.name for one in bed.nodes.ssl(host).iterdir()}
            found += [f"leaked: {name} on {host}" for name in files - {f"glusterfs.{end}" for end in ENDS}]
        return found


ENDS = ("pem", "key", "ca")


class Held:
    """What the bed holds, as the dummy tells of itself."""

    def __init__(self, bed):
        self.bed = bed

    def contents(self):
        gluster = self.bed.gluster
        instances = {id: self._volume(volume) for id, volume in self.bed.held().items()}
        marks = {name: volume.options.get(gluster_bed.MARK) for name, volume in gluster.frozen.items()}
        start = len(gluster_bed.SNAPSHOT)
        snapshots = {
            name[start:]: {"instance_id": marks[name], "rules": [], "size_gib": self._size_gib(gluster.frozen[name])}
            for name in gluster.snapshots
        }
        return {"instance": instances, "snapshot": snapshots}

    def _volume(self, volume):
        allowed = volume.options["auth.ssl-allow"].split(",")
        let_in = [("cert", name, "rw") for name in allowed if not name.startswith("abaca-node-")]
        return {"size_gib": self._size_gib(volume), "rules": let_in}

    def _size_gib(self, volume):
        """The limit; of a volume into which nobody was let yet what the limit can be at most."""
        allowed = volume.options["auth.ssl-allow"].split(",")
        if volume.limit_bytes is None and all(name.startswith("abaca-node-") for name in allowed):
            name = f"abaca_{volume.options[gluster_bed.MARK]}"
            (found,) = (one for one in self.bed.heketi.volumes.values() if one["name"] == name)
            return usable_gib(found["size"])
        return (volume.limit_bytes or 0) / GIB


def a_volume(theatre, size=3):
    return a_share(theatre, size, PROTOCOL)


def new_volume(theatre, _prepared):
    body = {"share": {"share_proto": PROTOCOL, "size": 3, "metadata": COUNTED}}
    return theatre.ask("POST", "/shares", body)["share"]["id"]


def allow(theatre, share_id, name):
    return act(theatre, share_id, allow_access={"access_type": "cert", "access_to": name})["access"]["id"]


def the_volume(theatre):
    """The one with which all of a back end is done, which takes as long as there are volumes."""
    if theatre.only is None:
        theatre.only = a_volume(theatre)
    return theatre.only


def the_volume_has_moved(theatre):
    """What the database says of where it can be mounted from is no longer so."""
    share_id = the_volume(theatre)
    with theatre.db.write() as tx:
        tx.execute(sa.update(export_locations).values(path="10.9.9.9:/elsewhere"))
    return share_id


def a_volume_with_rules(theatre):
    share_id = a_volume(theatre)
    rules = [allow(theatre, share_id, name) for name in ("alice", "bob")]
    theatre.settle()
    return share_id, rules


def change_rules(theatre, prepared):
    """One is denied and one added: a single operation takes both."""
    share_id, rules = prepared
    act(theatre, share_id, deny_access={"access_id": rules[0]})
    allow(theatre, share_id, "carol")
    return share_id


def a_volume_for_snapshots(theatre):
    body = {"share": {"share_proto": PROTOCOL, "size": 3, "share_type": "kept", "metadata": COUNTED}}
    share_id = theatre.ask("POST", "/shares", body)["share"]["id"]
    theatre.until_ended("share-create", share_id)
    return share_id


def a_snapshot(theatre):
    """A share, and its snapshot."""
    share_id = a_volume_for_snapshots(theatre)
    snapshot_id = take_snapshot(theatre, share_id)
    theatre.until_ended("snapshot-create", snapshot_id)
    return share_id, snapshot_id


def a_volume_to_take_back(theatre):
    """A share with a rule that came after its snapshot."""
    share_id, snapshot_id = a_snapshot(theatre)
    allow(theatre, share_id, "alice")
    theatre.settle()
    return share_id, snapshot_id


def clone(theatre, prepared):
    body = {"share": {"share_proto": PROTOCOL, "size": 4, "snapshot_id": prepared[1], "metadata": COUNTED}}
    return theatre.ask("POST", "/shares", body)["share"]["id"]


def manage(theatre, path):
    share = {"export_path": path, "service_host": POOL, "protocol": PROTOCOL}
    return theatre.ask("POST", "/shares/manage", {"share": share}, who="admin")["share"]["id"]


def an_attachment(theatre):
    return until_attached(theatre, attach(theatre, a_share_and_a_server(theatre, PROTOCOL)))


# These are about all that a back end has.
ON_ALL = ("backend-ensure", "backend-reconcile", "instance-mend")
# All that a user or an administrator can have of such a back end.
CASES = {
    "access-rules-sync": Case(a_volume_with_rules, change_rules),
    "attachment-attach": Case(lambda theatre: a_share_and_a_server(theatre, PROTOCOL), attach),
    "attachment-detach": Case(an_attachment, detach),
    "backend-ensure": Case(the_volume_has_moved, ensure),
    "backend-reconcile": Case(the_volume, reconcile),
    "instance-mend": Case(the_volume, mend),
    "share-clone": Case(a_snapshot, clone),
    "share-create": Case(nothing, new_volume),
    "share-delete": Case(a_volume, delete),
    "share-extend": Case(a_volume, extend),
    "share-manage": Case(lambda theatre: takeover.given_up(theatre, a_volume(theatre)), manage),
    "share-revert": Case(a_volume_to_take_back, revert),
    "share-shrink": Case(a_volume, shrink),
    "share-unmanage": Case(lambda theatre: a_volume_with_rules(theatre)[0], takeover.unmanage),
    "snapshot-create": Case(a_volume_for_snapshots, take_snapshot),
    "snapshot-delete": Case(a_snapshot, delete_snapshot),
}
