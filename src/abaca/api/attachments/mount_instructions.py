# SPDX-License-Identifier: Apache-2.0
"""How to mount a share by oneself: ready to be copied, for one's system and, if it is said, for one's server."""

from __future__ import annotations

from abaca import errors
from abaca.api.administration import rule_locks
from abaca.api.attachments.attaching import addresses_for
from abaca.api.shares.lookups import share_for_look, share_id_of
from abaca.db.engine.database import Tx
from abaca.db.shares import access_rules, export_locations
from abaca.domain.attachments import mount_instructions, mount_points
from abaca.domain.shares import access_rules as levels
from abaca.http.bodies import Filters, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One, View
from abaca.operations.attachments.attachment_attach import choose_source
from abaca.policy import reader

RESOURCE = Resource("connect documents", "/shares")


class ConnectFilters(Filters, unknown="refuse"):
    """For which server (its id) and system (debian, fedora, ...), where it shall be mounted, and how: rw or ro."""

    server: Text
    os: Text
    mount_point: Text
    access_level: Text


class InstructionsView(View):
    """How to mount a share: from where, in several forms, and which of the server's addresses nothing lets in yet.

    What lets them in is a rule that the caller may see.
    """

    export_location: str
    export_locations: list[str]
    mount_point: str
    options: str
    os: str
    commands: list[str]
    fstab: str
    systemd: dict[str, str] | None
    kubernetes: str
    not_let_in: list[str]


@RESOURCE.get(
    "/{id}/connect",
    policy=reader("share:connect", "See how to mount a share by oneself."),
    view=One("connect", InstructionsView),
    filters=ConnectFilters,
)
def show(call: Call, id: str, filters: dict[str, str]) -> dict[str, object]:
    """The commands, fstab line, systemd unit and Kubernetes volume, and which addresses are not let in yet."""
    system = mount_instructions.check_system(filters.get("os", "debian"))
    level = levels.check_level(filters.get("access_level"))
    addresses = addresses_for(call, filters)
    with call.db.read() as tx:
        id = share_id_of(call, tx, id)
        mount_point = mount_points.check(filters.get("mount_point", mount_points.default(id)))
        share = share_for_look(call, tx, id, ("size", "share_proto", "status"))
        if share.share_proto != "NFS":
            raise errors.Conflict(f"Share {id} is {share.share_proto}; this tells how to mount NFS.")
        paths = export_locations.mounted_paths(tx, id)
        source = choose_source(tx, id, addresses, None)
        missing = _missing(call, tx, id, addresses, level)
    if source is None:
        raise errors.Conflict(f"Share {id} is {share.status}: there is nothing to mount it from.")
    nodes = call.settings.nodes
    way = mount_instructions.Way(id, source, mount_point, level, share.size, nodes.nfs_port, nodes.mount_options)
    return {
        "export_location": source,
        "export_locations": paths,
        "mount_point": mount_point,
        "options": ",".join(way.options),
        "os": system,
        "commands": mount_instructions.commands(way, system),
        "fstab": mount_instructions.fstab(way),
        "systemd": mount_instructions.systemd(way),
        "kubernetes": mount_instructions.persistent_volume(way),
        "not_let_in": missing,
    }


def _missing(call: Call, tx: Tx, share_id: str, addresses: list[str], level: str) -> list[str]:
    """Those of a server's addresses that the rules in force, for them or for a network, do not let in at `level`.

    Rules that the caller may not see whole let nobody in here, or this would tell whom.
    """
    hidden = rule_locks.hide_some(call, tx, share_id)
    equal = {"access_type": "ip", "mounted_state": "active"}
    rows = access_rules.of_share(tx, share_id, ("id", "client", "access_level"), equal=equal)
    rules = [(row.client, row.access_level) for row in rows if row.id not in hidden]
    enough = (level, "rw")
    return [one for one in addresses if levels.level_of(one, rules) not in enough]
