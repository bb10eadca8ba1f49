# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS whose Heketi is killed while one grows, or of which a node dies while two write."""

import concurrent.futures
import contextlib

from tests.conftest import wait_until
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    cluster,
    delete,
    location,
    made,
    run,
    said,
    size_gib,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough


def bricks_of(cluster, place):
    """How many bricks GlusterFS has in the volume."""
    return cluster.nodes[0].gluster("volume", "info", place.rpartition("/")[2]).count(":/var/lib/heketi")


def until_it_grows(cluster, cloud, share, place, size):
    """GlusterFS has the bricks, or is just getting them, and Heketi has not heard that it has."""
    had = bricks_of(cluster, place)
    cloud.run("share", "resize", share, str(size))
    wait_until(lambda: bricks_of(cluster, place) > had, SHOWN_S)


def test_a_share_grows_although_heketi_is_killed_at_the_end_of_that(cluster, cloud, client):
    share = made(cloud, "cut short while it grows")
    place, alice = location(cloud, share), client("alice")
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"chown 5:6 {PLACE} && echo text > {PLACE}/file && sync {PLACE}/file")
    until_it_grows(cluster, cloud, share, place, 4)
    cluster.heketi.kill()
    cluster.heketi.start()
    assert cluster.heketi.is_at("expand-volume")
    wait_until_it_is(cloud, share, "available", 4)
    wait_until(lambda: size_gib(alice) == 4, SHOWN_S, 0.5)
    assert said(alice, f"stat -c %u:%g {PLACE}; cat {PLACE}/file") == "5:6\ntext\n"
    assert bricks_of(cluster, place) == 6
    assert not cluster.heketi.is_at("expand-volume")
    left = "grep -hE 'remove-brick .* commit *: SUCCESS' /var/log/glusterfs/cmd_history.log || true"
    assert any(said(node, left) for node in cluster.nodes)
    alice.unmount(PLACE)
    delete(cloud, share)
    assert cluster.left() == []


FILES = 100
# $1 is its directory. Each file is written again and again, and its sum is that of the last time.
_WRITES = f"""set -e
mkdir /run/sums
cd {PLACE}
mkdir "$1"
n=0
while [ ! -e /run/enough ]; do
    file=$((n % {FILES}))
    n=$((n + 1))
    head -c 65536 /dev/urandom > /run/part
    cp /run/part "$1/$file"
    sync "$1/$file"
    sum=$(sha256sum < /run/part)
    echo "${{sum%-}}$1/$file" > /run/sums/$file
    echo $n > /run/written
done
cat /run/sums/*"""


class Writer:
    """A client that writes files to the share without a pause; `sums` are those that they have in the end."""

    def __init__(self, machine, pool):
        self.machine, self.sums = machine, ""
        self._script = pool.submit(machine.check, ["sh", "-c", _WRITES, "sh", machine.name], 3 * SHOWN_S)

    def wrote(self):
        """How many files it has written so far. Raises what has ended it."""
        if self._script.done():
            self._script.result()
        count = self.machine.root / "run" / "written"
        return int(count.read_text() or "0") if count.exists() else 0

    def goes_on(self):
        """It has written all files once more."""
        before = self.wrote()
        wait_until(lambda: self.wrote() > before + FILES, SHOWN_S, 0.5)

    def end(self):
        (self.machine.root / "run" / "enough").touch()
        self.sums = self._script.result(SHOWN_S)
        assert len(self.sums.splitlines()) == FILES


@contextlib.contextmanager
def writing(machine):
    """A writer on the machine."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        writer = Writer(machine, pool)
        try:
            yield writer
        finally:
            writer.end()


def is_healed(cluster, volume):
    told = cluster.nodes[0].run(["gluster", "--mode=script", "volume", "heal", volume, "info"], SHOWN_S)
    return told.stdout.count("Number of entries: 0\n") == len(cluster.nodes)


def check_sums(machine, place, sums):
    """The machine reads there what was written."""
    (machine.root / "run" / "of-others").write_text(sums)
    said(machine, f"cd {place} && sha256sum --quiet -c /run/of-others")


def test_two_write_and_read_what_the_other_wrote_while_a_node_loses_its_power_and_is_back(cluster, cloud, client):
    share = made(cloud, "powerless")
    place, alice, bob = location(cloud, share), client("alice"), client("bob")
    lost = cluster.nodes[2]
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    with writing(alice) as hers:
        hers.goes_on()
        lost.kill()
        hers.goes_on()
        allow(cloud, share, "bob")
        assert bob.mount(place, PLACE).code == 0
        with writing(bob) as his:
            for writer in (hers, his):
                writer.goes_on()
            lost.start()
            for writer in (hers, his):
                writer.goes_on()
    for machine, sums in ((alice, his.sums), (bob, hers.sums)):
        check_sums(machine, PLACE, sums)
    wait_until(lambda: is_healed(cluster, place.rpartition("/")[2]), SHOWN_S, 0.5)
    for machine, sums in ((alice, his.sums), (bob, hers.sums)):
        machine.unmount(PLACE)
        assert machine.mount(place, PLACE).code == 0
        check_sums(machine, PLACE, sums)
        machine.unmount(PLACE)
    check_sums(lost, "/var/lib/heketi/mounts/*/*/brick", hers.sums + his.sums)
    delete(cloud, share)
    assert cluster.left() == []
