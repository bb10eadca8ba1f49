# SPDX-License-Identifier: Apache-2.0
"""What projects have beside their shares: offers of these, networks, clusters, and mounts that were given up.

Of what is numbered in one row the even ones are the large project's, the odd ones those of the others; what is rare is
the oldest of the large one's.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.population.words import (
    BACKENDS,
    BIG_CLUSTER,
    HOST,
    LARGE,
    RARE,
    RARE_SHARES,
    YEAR_S,
    Rows,
    Words,
    id_of,
)

_IS_LARGE = "n % 2 = 0"
_IS_RARE = f"({_IS_LARGE} AND n <= {2 * RARE_SHARES})"
_NEVER = str(-YEAR_S)


def everything(w: Words) -> Iterator[Rows]:
    """All rows, in an order in which nothing names what comes later."""
    for area in (_offers, _networks, _share_servers, _clusters, _nodes, _templates, _given_up):
        yield from area(w)


def _rarely(rare: str, else_: str) -> str:
    return f"CASE WHEN {_IS_RARE} THEN {rare} ELSE {else_} END"


def _project(w: Words) -> str:
    return f"CASE WHEN {_IS_LARGE} THEN '{LARGE}' ELSE {w.small('(n + 1) / 2')} END"


def _made(w: Words, number: int) -> str:
    """When that of so many was made."""
    return w.ago(f"({number} - n) * {YEAR_S / number}")


def _offers(w: Words) -> Iterator[Rows]:
    """Those that nobody has taken yet; a share that is offered waits for that."""
    yield Rows(
        "share_transfers",
        w.shares,
        {
            "id": w.id("offer"),
            "project_id": w.project(),
            "user_id": w.user(),
            "share_id": w.id("share"),
            "name": "'offer-' || n",
            "salt": "'salt'",
            "key_hash": w.id("offer"),
            "expires_at": w.ago(_NEVER),
            "created_at": w.since(),
        },
        where=w.is_offered(),
    )


def _networks(w: Words) -> Iterator[Rows]:
    """Each with one subnet and one directory."""
    of = {"project_id": _project(w), "created_at": _made(w, w.networks)}
    name = {
        "name": _rarely(f"'{RARE}-' || n", "'network-' || n"),
        "description": _rarely("'Rare words'", "'Network of team ' || (n % 5)"),
    }
    yield Rows("share_networks", w.networks, {**of, **name, "id": w.id("network"), "status": "'active'"})
    yield Rows(
        "share_network_subnets",
        w.networks,
        {
            "id": w.id("subnet"),
            "share_network_id": w.id("network"),
            "neutron_net_id": w.id("neutron-net"),
            "neutron_subnet_id": w.id("neutron-subnet"),
            "network_type": _rarely("'vlan'", "'vxlan'"),
            "segmentation_id": _rarely("7", "9"),
            "cidr": _rarely("'10.7.0.0/24'", "'10.9.0.0/24'"),
            "gateway": "'10.9.0.1'",
            "ip_version": _rarely("6", "4"),
            "mtu": "1500",
            "metadata": w.pairs(),
            "created_at": of["created_at"],
        },
    )
    texts = ("name", "server", "dns_ip", "domain", "ou", "default_ad_site", '"user"')
    words = {name: _rarely(f"'{RARE}'", "'common'") for name in texts}
    kind = _rarely("'kerberos'", "'ldap'")
    yield Rows("security_services", w.networks, {**of, **words, "id": w.id("directory"), "type": kind})
    yield Rows(
        "share_network_security_services",
        w.networks,
        {
            "share_network_id": w.id("network"),
            "type": kind,
            "security_service_id": w.id("directory"),
            "created_at": of["created_at"],
        },
    )


def _share_servers(w: Words) -> Iterator[Rows]:
    """One in each network, with one address. What is on them is not managed here, so none is deleted as unused."""
    made, some = _made(w, w.networks), tuple(BACKENDS)
    flags = ("security_service_update_support", "network_allocation_update_support")
    yield Rows(
        "share_servers",
        w.networks,
        {
            "id": w.id("share-server"),
            "project_id": _project(w),
            "share_network_id": w.id("network"),
            "host": _rarely(f"'{HOST}@{some[1]}'", f"'{HOST}@{some[0]}'"),
            "status": _rarely("'error'", "'active'"),
            "identifier": w.id("share-server"),
            "encryption_key_ref": _rarely(w.id("share-server"), "NULL"),
            "is_auto_deletable": "false",
            "details": w.pairs(),
            **dict.fromkeys((*flags, "share_server_multiple_subnet_support"), "false"),
            "created_at": made,
        },
    )
    on = {"share_server_id": w.id("share-server"), "share_network_subnet_id": w.id("subnet")}
    yield Rows("share_server_subnets", w.networks, on)
    yield Rows(
        "network_allocations",
        w.networks,
        {
            **on,
            "id": w.id("allocation"),
            "network": w.id("neutron-net"),
            "ip_address": _rarely("'10.7.0.2'", "'10.9.0.2'"),
            "ip_version": _rarely("6", "4"),
            "cidr": _rarely("'10.7.0.0/24'", "'10.9.0.0/24'"),
            "created_at": made,
        },
    )


def _clusters(w: Words) -> Iterator[Rows]:
    """Nothing is wanted on them any more; each has the group of its nodes."""
    made = _made(w, w.clusters)
    yield Rows(
        "clusters",
        w.clusters,
        {
            "id": w.id("cluster"),
            "project_id": _project(w),
            "user_id": "'user-1'",
            "name": "'cluster-' || n",
            "status": _rarely("'error'", "'active'"),
            "wanted": "'present'",
            "shares": w.json("'[]'"),
            "tolerance": "0",
            **dict.fromkeys(("is_protected", "is_forced"), "false"),
            "error_code": _rarely("'Unreachable'", "NULL"),
            "error_text": _rarely("'No node answers.'", "NULL"),
            "attempts": _rarely("3", "0"),
            "retry_at": _rarely(w.ago(_NEVER), "NULL"),
            "created_at": made,
        },
    )
    yield Rows(
        "cluster_node_groups",
        w.clusters,
        {
            "id": w.id("node-group"),
            "cluster_id": w.id("cluster"),
            "name": "'nodes'",
            "shares": w.json("'[]'"),
            "selector": w.pairs(),
            "created_at": made,
        },
    )


def _nodes(w: Words) -> Iterator[Rows]:
    """One cluster has all servers of the large project, those after it five of them each; the others have one each."""
    after, fifth = BIG_CLUSTER + 2, "(n - 1) / 5 * 2"
    of_five = 5 * (w.clusters - BIG_CLUSTER) // 2
    for number, cluster, kind, server, node in (
        (w.big_cluster_nodes, str(BIG_CLUSTER), "large-server", "n", "node"),
        (of_five, f"({after} + {fifth})", "large-server", f"(1 + (n - 1) % {w.servers})", "node-of-five"),
        (w.clusters // 2, "(2 * n - 1)", "small-server", "n", "only-node"),
    ):
        yield Rows(
            "cluster_nodes",
            number,
            {
                "id": w.id(node),
                "cluster_id": w.id("cluster", cluster),
                "node_group_id": w.id("node-group", cluster),
                "server_id": w.id(kind, server),
                "is_leaving": "false",
                "refusals": w.pairs(),
                "created_at": _made(w, number),
            },
        )


def _templates(w: Words) -> Iterator[Rows]:
    yield Rows(
        "cluster_templates",
        w.templates,
        {
            "id": w.id("template"),
            "project_id": _project(w),
            "kind": "CASE WHEN n / 2 % 2 = 0 THEN 'node_group' ELSE 'cluster' END",
            "name": "'template-' || n",
            "is_protected": "false",
            "content": w.pairs(),
            "created_at": _made(w, w.templates),
        },
    )


def _given_up(w: Words) -> Iterator[Rows]:
    """Mounts on machines that nobody could enter when their attachments went by force; they are tried again."""
    share, server = "(20 * n)", f"(1 + n % {w.servers})"
    machine = f"CASE WHEN n <= {RARE_SHARES} THEN '{id_of('rare', 1)}' ELSE '{id_of('machine', 1)}' END"
    yield Rows(
        "orphaned_mounts",
        w.orphaned_mounts,
        {
            "id": w.id("orphaned-mount"),
            "server_id": w.id("large-server", server),
            "machine_id": machine,
            "mode": "'network'",
            "tag": w.id("share", share),
            "mount_point": f"'/mnt/' || {w.id('share', share)}",
            "protocol": "'NFS'",
            "source": w.path(share),
            "attempts": "3",
            "retry_at": w.ago(_NEVER),
            "created_at": _made(w, w.orphaned_mounts),
        },
    )
