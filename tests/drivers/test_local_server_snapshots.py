# SPDX-License-Identifier: Apache-2.0
"""Snapshots of shares on share servers of the local driver, mounted by machines in the tenants' networks."""

import pytest

from lab import processes
from tests.drivers.harness import fresh_id, rules, snapshot
from tests.drivers.test_local_servers import VLANS, local, machines, on_vlan, share_on

__all__ = ["local", "machines"]

pytestmark = pytest.mark.system


def test_a_snapshot_is_reached_at_every_address_of_its_server_and_written_at_none(local, machines, tmp_path):
    vlans = next(VLANS), next(VLANS)
    subnets = [on_vlan(vlans[0], "10.24.1.4/24"), on_vlan(vlans[1], "10.24.2.4/24", "fd77:24::4/64")]
    server = local.set_up(fresh_id(), subnets)
    near, far = machines(local, vlans[0], "10.24.1.11/24"), machines(local, vlans[1], "10.24.2.11/24", "fd77:24::11/64")
    share = share_on(local, server, "10.24.1.11 rw")
    taken = snapshot(share)
    local.driver.create_snapshot(taken)
    (local.mounted(share) / "later").touch()
    path = f"/snapshots/{taken.id}"
    exports = local.driver.export_snapshot(taken)
    assert [one.path for one in exports] == [f"10.24.1.4:{path}", f"10.24.2.4:{path}", f"[fd77:24::4]:{path}"]
    assert near.sees("10.24.1.4", taken, "snapshots") is None, "the share's rules are not the snapshot's"
    local.driver.set_snapshot_access(taken, rules("10.24.1.11 rw", "10.24.2.0/24 ro", "fd77:24::11 rw"))
    for machine, address in ((near, "10.24.1.4"), (far, "10.24.2.4"), (far, "fd77:24::4")):
        found = machine.finds(address, taken, "snapshots")
        assert "file" in found
        assert "later" not in found
    assert "later" in near.finds("10.24.1.4", share)
    new = tmp_path / "new"
    new.write_text("never")
    with pytest.raises(processes.LabError):
        near.command("timeout", "20", "nfs-cp", str(new), f"nfs://10.24.1.4{path}/new?version=4")
    near.command("timeout", "20", "nfs-cp", str(new), f"nfs://10.24.1.4/shares/{share.id}/new?version=4")
    assert "new" not in near.finds("10.24.1.4", taken, "snapshots")
    local.driver.delete_snapshot(taken)
    assert near.sees("10.24.1.4", taken, "snapshots") is None
