# SPDX-License-Identifier: Apache-2.0
"""The local driver takes over what is in its pool already, and gives shares up without harm: on real btrfs."""

import pytest

from abaca.drivers import contract
from abaca.drivers.clients import btrfs
from lab import processes
from tests.drivers.harness import LocalHarness, rules, snapshot

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def local():
    """A back end with real btrfs and a real NFS-Ganesha."""
    made = LocalHarness()
    try:
        made.start()
        yield made
    finally:
        made.close()


def found_at(local, path, **more):
    """A share instance that shall be what is at the path."""
    return local.instance(exports=[contract.Export(path=str(path))], size_gib=0, **more)


def a_subvolume(local, name, text="text"):
    """What an operator makes by hand in the pool."""
    path = local.directory / "pool" / name
    processes.command(["btrfs", "subvolume", "create", str(path)])
    (path / "file").write_text(text)
    return path


def test_what_was_given_up_is_served_as_before_also_after_a_restart(local):
    old = local.instance(size_gib=2)
    places = local.driver.create(old).exports
    local.driver.set_access(old, rules("10.0.0.1 rw"))
    local.write(old, "text")
    local.driver.unmanage(old)
    for again in (False, True):
        if again:
            local.driver.shutdown()
            local.driver = None
            local.start()
        assert (local.read(old), local.clients(old)) == ("text", {("10.0.0.1", "rw")})
    assert local.driver.instances_after("", 10) == []
    new = local.instance(exports=places[:1], size_gib=0)
    managed = local.driver.manage(new, {})
    assert (managed.size_gib, managed.exports) == (2, places)
    new = local.instance(id=new.id, exports=places, driver_data=managed.driver_data)
    assert (local.read(new), local.clients(new)) == ("text", {("10.0.0.1", "rw")})
    assert local.driver.inspect([new]) == {} or local.driver.inspect([new])[new.id].exports is None
    local.driver.set_access(new, [])
    assert local.clients(new) == set()
    local.driver.delete(new)
    assert local.held() == set()


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_subvolume_of_the_pool_is_taken_over_with_its_data(local, is_absolute):
    path = a_subvolume(local, "mine")
    share = found_at(local, path if is_absolute else "mine")
    managed = local.driver.manage(share, {})
    assert (managed.size_gib, managed.driver_data) == (1, None)
    assert managed.exports[0].path == f"127.0.0.1:/shares/{share.id}"
    assert (local.read(share), local.size_gib(share), local.clients(share)) == ("text", 1, set())
    assert not path.exists()
    local.driver.delete(share)


def test_its_size_may_be_said(local):
    a_subvolume(local, "mine")
    with pytest.raises(contract.Refused, match="'size' is much"):
        local.driver.manage(found_at(local, "mine"), {"size": "much"})
    share = found_at(local, "mine")
    assert local.driver.manage(share, {"size": "3"}).size_gib == local.size_gib(share) == 3
    local.driver.delete(share)


def test_a_share_given_up_is_found_by_its_subvolume_too_and_has_its_old_path_no_more(local):
    old = local.share("text")
    local.driver.set_access(old, rules("10.0.0.1 rw"))
    local.driver.unmanage(old)
    share = found_at(local, f"unmanaged/{old.id}")
    local.driver.manage(share, {})
    assert (local.read(share), local.clients(share)) == ("text", set())
    assert str(local.mounted(old)) not in local.shown()
    local.driver.delete(share)


def test_a_directory_is_refused_with_what_makes_a_subvolume_of_it(local):
    plain = local.directory / "pool" / "plain"
    plain.mkdir()
    (plain / "file").write_text("text")
    with pytest.raises(contract.Refused, match=r"btrfs subvolume create .* && cp -a --reflink=always") as refused:
        local.driver.manage(found_at(local, plain), {})
    mend = refused.value.message.partition("copy it there: ")[2]
    processes.command(["sh", "-c", mend])
    share = found_at(local, "new")
    local.driver.manage(share, {})
    assert local.read(share) == "text"
    local.driver.delete(share)


def test_what_is_somebody_elses_or_elsewhere_is_refused(local):
    other = local.share("text")
    root = local.directory / "pool"
    (root / "link").symlink_to(root / "shares" / other.id)
    a_subvolume(local, "first")
    processes.command(["btrfs", "subvolume", "snapshot", "-r", str(root / "first"), str(root / "fixed")])
    refusals = {
        f"shares/{other.id}": "release that share first",
        f"127.0.0.1:/shares/{other.id}": "release that share first",
        "link": "symbolic link",
        "fixed": "read-only",
        "../pool.img": "not in the pool",
        "/etc": "not in the pool",
        "": "not in the pool",
    }
    for path, why in refusals.items():
        with pytest.raises(contract.Refused, match=why):
            local.driver.manage(found_at(local, path), {})
    for path in ("nothing", "10.9.9.9:/shares/x", "127.0.0.1:/shares/x"):
        with pytest.raises(contract.Gone):
            local.driver.manage(found_at(local, path), {})
    assert local.read(other) == "text"
    local.driver.delete(other)


@pytest.mark.parametrize("path", ["127.0.0.1:/elsewhere/{id}", '127.0.0.1:/a"; Squash = "none/{id}'])
def test_only_a_path_by_which_it_was_exported_leads_to_what_was_given_up(local, path):
    """Any other would become a path of the NFS server's, in its configuration as it was written."""
    old = local.share("text")
    local.driver.unmanage(old)
    with pytest.raises(contract.Gone, match="nothing is exported as"):
        local.driver.manage(found_at(local, path.format(id=old.id)), {})
    assert (local.read(old), local.held()) == ("text", set())
    share = found_at(local, f"unmanaged/{old.id}")
    local.driver.manage(share, {})
    local.driver.delete(share)


def test_an_export_by_another_path_ends_when_what_was_given_up_is_taken_over(local):
    """Those whom it had let in would go on reaching the new share, by no rule of that."""
    old = local.share("text", mount_point_name="nice")
    local.driver.set_access(old, rules("10.0.0.1 rw"))
    local.driver.unmanage(old)
    share = found_at(local, f"127.0.0.1:/shares/{old.id}")
    local.driver.manage(share, {})
    assert (local.read(share), local.clients(share)) == ("text", set())
    assert str(local.mounted(old)) not in local.shown()
    local.driver.delete(share)


@pytest.mark.parametrize("size", ["much", "0", str(2**60)])
def test_what_is_refused_is_served_as_before(local, size):
    old = local.share("text")
    local.driver.set_access(old, rules("10.0.0.1 rw"))
    local.driver.unmanage(old)
    with pytest.raises(contract.Refused, match="'size' is"):
        local.driver.manage(found_at(local, f"unmanaged/{old.id}"), {"size": size})
    assert (local.read(old), local.clients(old)) == ("text", {("10.0.0.1", "rw")})
    share = found_at(local, f"unmanaged/{old.id}")
    local.driver.manage(share, {})
    local.driver.delete(share)


def test_the_commands_for_a_directory_are_quoted(local):
    plain = local.directory / "pool" / "a b; c"
    plain.mkdir()
    with pytest.raises(contract.Refused, match=r"'[^']*/a b; c/\.'"):
        local.driver.manage(found_at(local, plain), {})
    plain.rmdir()


def a_snapshot(local, text="text"):
    """A share with that in it, and a snapshot of it."""
    share = local.share(text)
    taken = snapshot(share)
    local.driver.create_snapshot(taken)
    return share, taken


def test_a_snapshot_that_was_given_up_is_served_as_before_also_after_a_restart(local):
    share, old = a_snapshot(local)
    local.driver.export_snapshot(old)
    local.driver.set_snapshot_access(old, rules("10.0.0.1 rw"))
    local.driver.unmanage_snapshot(old)
    for again in (False, True):
        if again:
            local.driver.shutdown()
            local.driver = None
            local.start()
        assert local.snapshot_clients(old) == {("10.0.0.1", "ro")}
        assert (local.directory / "snapshots" / old.id / "file").read_text() == "text"
        assert btrfs.is_read_only(local.directory / "pool" / "unmanaged" / old.id)
    new = snapshot(share, provider_location=f"snapshots/{old.id}")
    local.driver.manage_snapshot(new, {})
    assert str(local.directory / "snapshots" / old.id) not in local.shown()
    assert btrfs.is_read_only(local.directory / "pool" / "snapshots" / new.id)
    local.driver.delete_snapshot(new)
    local.driver.delete(share)


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_read_only_subvolume_of_the_pool_becomes_a_snapshot(local, is_absolute):
    share = local.share("before")
    path = local.directory / "pool" / "before"
    own = local.directory / "pool" / "shares" / share.id
    processes.command(["btrfs", "subvolume", "snapshot", str(own), str(path)])
    refused = snapshot(share, provider_location="before")
    with pytest.raises(contract.Refused, match=r"btrfs property set -ts .*/before ro true"):
        local.driver.manage_snapshot(refused, {})
    btrfs.make_read_only(path, so=True)
    with pytest.raises(contract.Refused, match="'size' is much"):
        local.driver.manage_snapshot(refused, {"size": "much"})
    taken = snapshot(share, provider_location=str(path) if is_absolute else "before")
    managed = local.driver.manage_snapshot(taken, {"size": "2"})
    assert (managed.size_gib, managed.provider_location) == (2, f"snapshots/{taken.id}")
    copy = local.instance(size_gib=2)
    local.driver.create_from_snapshot(copy, taken)
    assert (local.read(copy), path.exists()) == ("before", False)
    local.driver.delete_snapshot(taken)
    for one in (copy, share):
        local.driver.delete(one)


def refuse(local, share, place):
    """What says why what is there is not taken over as a snapshot of the share."""
    with pytest.raises(contract.Refused) as refused:
        local.driver.manage_snapshot(snapshot(share, provider_location=place), {})
    return refused.value.message


def test_what_was_not_taken_of_a_share_is_no_snapshot_of_it(local):
    share, theirs = local.share("mine"), local.share("theirs")
    pool = local.directory / "pool"
    processes.command(["btrfs", "subvolume", "snapshot", "-r", str(pool / "shares" / theirs.id), str(pool / "other")])
    btrfs.make_read_only(a_subvolume(local, "empty"), so=True)
    for place in ("other", "empty"):
        mend = f"{pool}/{place} was not taken of this share; give what was, as by: btrfs subvolume snapshot -r"
        assert f"{mend} {pool}/shares/{share.id}" in refuse(local, share, place)
        assert btrfs.is_read_only(pool / place)
    taken = snapshot(theirs, provider_location="other")
    local.driver.manage_snapshot(taken, {})
    local.driver.delete_snapshot(taken)
    processes.command(["btrfs", "subvolume", "delete", str(pool / "empty")])
    for one in (share, theirs):
        local.driver.delete(one)


def test_a_deleted_subvolume_is_of_no_family_from_that_moment_on(local):
    path = a_subvolume(local, "mine")
    root, tree = path.parent, btrfs.tree_id(path)
    btrfs.sync(root)
    assert tree in btrfs.family(root)
    btrfs.delete(path)
    assert tree not in btrfs.family(root)


def test_a_snapshot_is_known_as_the_shares_after_a_revert_and_none_of_its_copies(local):
    share, first = a_snapshot(local)
    second = snapshot(share)
    local.driver.create_snapshot(second)
    copy = local.instance(size_gib=1)
    local.driver.create_from_snapshot(copy, second)
    for one in (first, second):
        local.driver.unmanage_snapshot(one)
    for one in (first, second):
        assert "was not taken of this share" in refuse(local, copy, f"snapshots/{one.id}")
    again = [snapshot(share, provider_location=f"snapshots/{one.id}") for one in (first, second)]
    local.driver.manage_snapshot(again[1], {})
    local.driver.revert(again[1], [])
    local.driver.manage_snapshot(again[0], {})
    assert {one.id for one in again} <= set(local.snapshots())
    for one in again:
        local.driver.delete_snapshot(one)
    for one in (copy, share):
        local.driver.delete(one)


def test_a_snapshot_of_somebody_else_or_elsewhere_is_refused(local):
    share, other = a_snapshot(local)
    mine = a_subvolume(local, "mine")
    (local.directory / "pool" / "led").symlink_to(mine)
    for place in (
        f"snapshots/{other.id}",
        f"{local.directory}/pool/snapshots/{other.id}",
        f"shares/{share.id}",
        "led",
        "/etc",
        "../x",
        "",
    ):
        with pytest.raises(contract.Refused):
            local.driver.manage_snapshot(snapshot(share, provider_location=place), {})
    for place in ("nosuch", "snapshots/nosuch"):
        with pytest.raises(contract.Gone):
            local.driver.manage_snapshot(snapshot(share, provider_location=place), {})
    assert other.id in local.snapshots()
    (local.directory / "pool" / "led").unlink()
    processes.command(["btrfs", "subvolume", "delete", str(mine)])
    local.driver.delete_snapshot(other)
    local.driver.delete(share)


@pytest.mark.parametrize("moves", ["gives up", "takes"])
def test_whoever_dies_while_a_snapshot_moves_goes_on_and_it_stays_read_only(local, moves):
    """For a moment it can be written, since nothing moves that cannot."""
    share, old = a_snapshot(local)
    pool = local.directory / "pool"
    if moves == "takes":
        local.driver.unmanage_snapshot(old)
    new = snapshot(share, provider_location=f"snapshots/{old.id}")
    source, target = pool / "snapshots" / old.id, pool / "unmanaged" / old.id
    if moves == "takes":
        source, target = target, pool / "snapshots" / new.id
    btrfs.make_read_only(source, so=False)
    source.rename(target)
    if moves == "gives up":
        local.driver.unmanage_snapshot(old)
        assert btrfs.is_read_only(target)
    assert local.driver.manage_snapshot(new, {}).size_gib == 1
    assert btrfs.is_read_only(pool / "snapshots" / new.id)
    local.driver.delete_snapshot(new)
    local.driver.delete(share)
