# SPDX-License-Identifier: Apache-2.0
"""Whoever asks for whatever of clusters at either door, without waiting: each answer is one, and all agrees after.

What is asked draws WALK_SEED; WALK_STEPS is how long a walk is.
"""

import collections
import contextlib
import ipaddress
import os
import random

import pytest
import sqlalchemy as sa

from abaca.app.servers import see_to_attachments
from abaca.db.attachments import servers as server_rows
from abaca.db.clusters import clusters as cluster_rows
from abaca.db.tables.attachments import attachments, orphaned_mounts, servers
from abaca.db.tables.clusters import cluster_node_groups, cluster_nodes, clusters
from abaca.db.tables.shares import access_rules, shares
from abaca.domain.clusters.clusters import effective
from tests.api.world import PROJECT
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.machines import KEY, NEW_SERVER, NUMBERS

SEED = os.environ.get("WALK_SEED", "0")
STEPS = int(os.environ.get("WALK_STEPS", "120"))
FIRST = ipaddress.ip_address("10.9.0.1")
# Of ten machines one is never reached to mount something, and one never lets go.
BROKEN = ("mount:Unreachable:{}3", "unmount:Unreachable:{}4", "remount:TimedOut:{}4")
FAILURES = ", ".join(one.format(f"10.9.0.{ten or ''}") for one in BROKEN for ten in range(20))
ROLES = ("compute", "data")
PATHS = (None, "/net/a", "/net/a/b", "/net/b", "/elsewhere")
DOORS = {"1.1": f"//data-processing/v1.1/{PROJECT}", "2": "//data-processing/v2"}


class Theatre(stage.Theatre):
    """With machines that fail."""

    def with_driver(self, written, driver):
        fails = f"plugin = rehearsal\nrehearsal_failures = {FAILURES}"
        return super().with_driver(written, driver).replace("plugin = rehearsal", fails)


class Asker:
    """Who asks, and what they were answered."""

    def __init__(self, theatre, seed):
        self.theatre = theatre
        self.random = random.Random(seed)
        self.asked = []
        self.made = self.machines = 0
        # what is on servers that nobody knows any more
        self.forgotten = set()
        self.looks = see_to_attachments(theatre.stage.settings, theatre.db, theatre.acting.queues[cases.QUEUE])

    def ask(self, method, path, body=None, who="member"):
        answer = self.theatre.world.ask(who, method, path, body, **cases.VERSION)
        self.asked.append((who, method, path, body, answer.status, str(answer.body)[:200]))
        assert answer.status in (200, 201, 202, 204, 400, 403, 404, 409, 503), self.asked[-1]
        if answer.status >= 400:
            told = answer.body.get("error_message") or next(iter(answer.body.values()))["message"]
            assert len(told) > 20, self.asked[-1]
        return answer

    def of(self, table, column="id"):
        """The ids of all there are, in no order that tells anything."""
        with self.theatre.db.read() as tx:
            return sorted({row[0] for row in tx.rows(sa.select(table.c[column]))})

    def some(self, found):
        """One of them, or now and then one that is not there."""
        nobody = "00000000-0000-4000-8000-000000000000"
        return self.random.choice(found) if found and self.random.random() > 0.02 else nobody

    def few(self, found, most=4):
        return self.random.sample(found, min(len(found), self.random.randint(0, most)))

    def cluster(self):
        return self.some(self.of(clusters))

    def server(self):
        return self.some(self.of(servers))

    def group(self, cluster_id):
        with self.theatre.db.read() as tx:
            found = tx.rows(sa.select(cluster_node_groups.c.name).where(cluster_node_groups.c.cluster_id == cluster_id))
        return self.some([row.name for row in found])

    def chance(self, of):
        return self.random.random() < of


class Wisher(Asker):
    """What somebody may want of a cluster."""

    def share(self):
        found = {"id": self.some(self.of(shares))}
        if path := self.random.choices(PATHS, [8, 3, 1, 3, 0.2])[0]:
            found["path"] = path
        if self.chance(0.4):
            found["access_level"] = self.random.choice(["ro", "rw"])
        return found

    def wanted(self):
        return [self.share() for _ in range(self.random.choices([0, 1, 2, 3], [1, 6, 3, 1])[0])]

    def selector(self):
        role = self.random.choice(ROLES)
        return self.random.choice([{"metadata": {"role": role}}, {"name": "n*[0-4]"}, {"metadata": {"role": "nobody"}}])

    def new_group(self, name):
        group = {"name": name}
        if self.chance(0.4):
            group["selector"] = self.selector()
            if self.chance(0.6):
                group["count"] = self.random.randint(0, 3)
        else:
            group["servers"] = self.few(self.of(servers))
        if self.chance(0.3):
            group["shares"] = self.wanted()
        return group

    def changed_group(self, cluster_id):
        group = {"name": self.group(cluster_id)}
        kind = self.random.choice(["add", "remove", "all", "count", "selector", "shares", "exchange"])
        if kind in ("add", "exchange"):
            group["add_servers"] = self.few(self.of(servers), 2)
        if kind in ("remove", "exchange"):
            with self.theatre.db.read() as tx:
                nodes = tx.rows(sa.select(cluster_nodes.c.server_id).where(cluster_nodes.c.cluster_id == cluster_id))
            group["remove_servers"] = self.few(sorted(row.server_id for row in nodes), 2)
        if kind == "all":
            group["servers"] = self.few(self.of(servers), 5)
        if kind == "count":
            group["count"] = self.random.choice([0, 1, 2, 3, None])
        if kind == "selector":
            group["selector"] = self.selector()
        if kind == "shares":
            group["shares"] = self.wanted()
        return group


class Walk(Wisher):
    """Who asks for anything at either door."""

    def make_cluster(self):
        if len(self.of(clusters)) > 5:
            return
        self.made += 1
        wish = {"name": f"c{self.made if self.chance(0.95) else 1}", "shares": self.wanted()}
        if self.chance(0.5):
            wish["servers"] = self.few(self.of(servers), 5)
        else:
            wish["node_groups"] = [self.new_group(name) for name in self.few(["a", "b", "c"])]
        if self.chance(0.3):
            wish["network"] = self.random.choice(["10.9.0.0/24", "10.9.0.0/16", "10.0.0.0/7"])
        if self.chance(0.4):
            wish["tolerance"] = self.random.randint(0, 3)
        if self.chance(0.7):
            wish["allow_empty"] = True
        self.ask("POST", "//abaca/v1/clusters", {"cluster": wish})

    def change_shares(self):
        cluster_id = self.cluster()
        how = self.random.choice(["shares", "add_shares", "remove_shares"])
        what = self.wanted() if how != "remove_shares" else [self.some(self.of(shares))]
        self.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": {how: what}})

    def change_nodes(self):
        cluster_id = self.cluster()
        groups = [self.changed_group(cluster_id) if self.chance(0.75) else self.new_group("d")]
        body = {"node_groups": groups}
        if self.chance(0.15):
            body["remove_node_groups"] = [self.group(cluster_id)]
        self.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": body})

    def change_rest(self):
        what = self.random.choice(
            [
                {"network": self.random.choice([None, "10.9.0.0/24"])},
                {"tolerance": self.random.randint(0, 3)},
                {"is_protected": self.chance(0.2)},
                {"name": f"c{self.random.randint(1, 9)}"},
            ]
        )
        self.ask("PATCH", f"//abaca/v1/clusters/{self.cluster()}", {"cluster": what})

    def delete_cluster(self):
        force = self.random.choice(["", "", "?force=true"])
        self.ask("DELETE", f"//abaca/v1/clusters/{self.cluster()}{force}")

    # ---------------------------------------------------------------- the data processing door

    def told_group(self, name):
        configs = {"servers": {"metadata": {"role": self.random.choice(ROLES)}}}
        group = {"name": name, "count": self.random.randint(0, 3), "flavor_id": "2", "node_configs": configs}
        return {**group, "shares": self.wanted()} if self.chance(0.3) else group

    def make_told_cluster(self):
        if len(self.of(clusters)) > 5:
            return
        self.made += 1
        version = self.random.choice(sorted(DOORS))
        key = "hadoop_version" if version == "1.1" else "plugin_version"
        groups = [self.told_group(name) for name in self.few(["a", "b", "c"], 2)]
        wish = {"name": f"t{self.made}", "plugin_name": "abaca", key: "1.0", "node_groups": groups}
        self.ask("POST", f"{DOORS[version]}/clusters", {**wish, "shares": self.wanted()})

    def scale(self):
        cluster_id, door = self.cluster(), self.random.choice(sorted(DOORS.values()))
        body = {}
        if self.chance(0.8):
            body["resize_node_groups"] = [{"name": self.group(cluster_id), "count": self.random.randint(0, 4)}]
        if self.chance(0.3):
            body["add_node_groups"] = [self.told_group(self.random.choice(["a", "e"]))]
        self.ask("PUT", f"{door}/clusters/{cluster_id}", body)

    def patch_told(self):
        door = self.random.choice(sorted(DOORS.values()))
        self.ask("PATCH", f"{door}/clusters/{self.cluster()}", {"shares": self.wanted()})

    def delete_told(self):
        self.ask("DELETE", f"{self.random.choice(sorted(DOORS.values()))}/clusters/{self.cluster()}")

    # ---------------------------------------------------------------- what clusters are made of

    def add_server(self):
        """As an operator does who has the keys."""
        if len(self.of(servers)) < 9:
            self.machines += 1
            ip = str(FIRST + self.machines)
            values = {
                "name": f"n{next(NUMBERS)}",
                "project_id": PROJECT,
                "ssh_host": ip,
                "host_key": KEY,
                "key": "file:/k",
            }
            role = {"metadata": {"role": self.random.choice(ROLES)}}
            with self.theatre.db.write() as tx:
                server_rows.create(tx, {**NEW_SERVER, **values, **role}, [(ip, "default")])

    def change_server(self):
        role = {"metadata": {"role": self.random.choice(ROLES)}}
        self.ask("PUT", f"//abaca/v1/servers/{self.server()}", {"server": role}, who="admin")

    def forget_server(self):
        server_id = self.server()
        with self.theatre.db.read() as tx:
            there = [
                row.id
                for table in (attachments, orphaned_mounts)
                for row in tx.rows(sa.select(table.c.id).where(table.c.server_id == server_id))
            ]
        self.forgotten.update(f"leaked: a mount of {id}, which is no attachment" for id in there)
        self.ask("DELETE", f"//abaca/v1/servers/{server_id}", who="admin")

    def make_share(self):
        if len(self.of(shares)) < 4:
            self.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}})

    def delete_share(self):
        self.ask("DELETE", f"/shares/{self.some(self.of(shares))}")

    def attach(self):
        wish = {"share_id": self.some(self.of(shares)), "server_id": self.server()}
        if self.chance(0.4):
            wish["mount_point"] = self.random.choice(PATHS[1:])
        self.ask("POST", "//abaca/v1/attachments", {"attachment": wish})

    def detach(self):
        self.ask("DELETE", f"//abaca/v1/attachments/{self.some(self.of(attachments))}")

    def let_in(self):
        to = str(FIRST + self.random.randrange(20))
        rule = {"access_type": "ip", "access_to": to, "access_level": self.random.choice(["ro", "rw"])}
        self.ask("POST", f"/shares/{self.some(self.of(shares))}/action", {"allow_access": rule})

    def keep_out(self):
        rule = {"access_id": self.some(self.of(access_rules))}
        self.ask("POST", f"/shares/{self.some(self.of(shares))}/action", {"deny_access": rule})

    def look(self):
        """What workers do by themselves after a while."""
        for task in self.looks:
            task.do()

    def settle(self):
        self.theatre.settle()
        self.look()  # clusters whose servers were forgotten meanwhile are looked at by and by
        self.theatre.settle()
        found = self.wrong()
        assert found == [], "\n".join(map(str, [*found, *self.asked[-40:]]))

    def wrong(self):
        return [line for line in wrong(self.theatre) if line not in self.forgotten]

    WEIGHTED = (
        (5, make_cluster),
        (6, change_shares),
        (8, change_nodes),
        (2, change_rest),
        (3, delete_cluster),
        (3, make_told_cluster),
        (5, scale),
        (3, patch_told),
        (1, delete_told),
        (6, add_server),
        (2, change_server),
        (2, forget_server),
        (3, make_share),
        (1, delete_share),
        (3, attach),
        (2, detach),
        (2, let_in),
        (1, keep_out),
        (5, look),
        (10, settle),
    )
    STEPS = tuple(step for _, step in WEIGHTED)

    def step(self):
        self.random.choices(self.STEPS, [weight for weight, _ in self.WEIGHTED])[0](self)


def wrong(theatre):
    """What does not agree when nothing is left to do."""
    with theatre.db.read() as tx:
        found = [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx)]
        found += stage.left_on_servers(tx, theatre.nodes)
        there = [row for row in tx.rows(sa.select(attachments)) if row.cluster_id is not None]
        nodes = tx.rows(sa.select(cluster_nodes))
        of_cluster = {id: cluster_rows.show(tx, id) for id in {row.id for row in tx.rows(sa.select(clusters))}}
        groups = {one.id: one for id in of_cluster for one in cluster_rows.groups(tx, id)}
    known = {(node.cluster_id, node.server_id) for node in nodes}
    found += [f"leaked: {row} of no node" for row in there if (row.cluster_id, row.server_id) not in known]
    on_node = collections.defaultdict(dict)
    for row in there:
        on_node[row.cluster_id, row.server_id][row.share_id] = row
    failing = collections.Counter()
    for node in nodes:
        cluster = of_cluster[node.cluster_id]
        if cluster.wanted == "deleted" or node.is_leaving:
            if cluster.error_text is None:
                found.append(f"{cluster.id} does not say why {node.server_id} does not go")
            continue
        has = on_node[node.cluster_id, node.server_id]
        lacks, problems = wrong_of_node(
            cluster, effective(cluster.shares, groups[node.node_group_id].shares), node, has
        )
        failing[cluster.id] += bool(lacks)
        found += problems
    return found + wrong_of_clusters(of_cluster.values(), failing)


def wrong_of_node(cluster, wanted, node, has):
    """Which of the wanted shares a node lacks, and what cannot be, by the attachments that it has."""
    lacks, found = [], []
    for one in wanted:
        row, what = has.get(one.id), f"{cluster.id} wants {one} on {node.server_id}"
        if row is None or row.state != "active":
            lacks.append(one)
            is_told = one.id in node.refusals or cluster.error_code is not None
            if not is_told and (row is None or row.state == "error"):
                found.append(f"{what}, and does not say why it is not there: {row}")
        elif (row.mount_point, row.access_level) != (one.path, one.access_level):
            found.append(f"{what}, there is {row}")
    if cluster.status == "active" and (more := has.keys() - {one.id for one in wanted}):
        found.append(f"{cluster.id} has on {node.server_id} what is not wanted: {more}")
    return lacks, found


def wrong_of_clusters(known, failing):
    """What a cluster says that does not fit the number of its nodes that lack something."""
    found = []
    for cluster in known:
        if cluster.status == "active" and failing[cluster.id] > cluster.tolerance:
            found.append(f"{cluster.id} is active, {failing[cluster.id]} nodes lack something: {cluster}")
        if cluster.status == "error" and not cluster.error_text:
            found.append(f"{cluster.id} does not say what is wrong")
    return found


def clear(walk):
    """All goes, whatever became of it."""
    theatre = walk.theatre
    for cluster_id in walk.of(clusters):
        walk.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": {"is_protected": False}})
        theatre.ask("DELETE", f"//abaca/v1/clusters/{cluster_id}?force=true")
    theatre.settle()
    for attachment_id in walk.of(attachments):
        theatre.ask("DELETE", f"//abaca/v1/attachments/{attachment_id}?force=true")
    theatre.settle()
    with theatre.db.read() as tx:
        made = tx.rows(sa.select(access_rules).where(access_rules.c.made_for.is_not(None)))
    left = [*walk.of(clusters), *walk.of(cluster_nodes), *walk.of(cluster_node_groups), *walk.of(attachments), *made]
    return [*walk.wrong(), *left]


@pytest.mark.parametrize("number", range(int(os.environ.get("WALKS", "2"))))
def test_whatever_is_asked_of_clusters_all_agrees_after(database, tmp_path, number):
    with contextlib.ExitStack() as stack:
        theatre = Theatre(database, tmp_path, None, stack)
        theatre.enter()
        walk = Walk(theatre, f"{SEED} {number}")
        for _ in range(3):
            walk.make_share()
            walk.add_server()
            walk.add_server()
        for _ in range(STEPS):
            walk.step()
        walk.settle()
        assert clear(walk) == [], walk.asked[-60:]
