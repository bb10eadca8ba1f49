# SPDX-License-Identifier: Apache-2.0
"""A real Neutron on loopback: its API over a database of its own, with the lab's Keystone for logins.

ML2 without agents: networks, subnets, ports, quotas and addresses are as everywhere, and nothing is plugged in
anywhere. Its mechanism is the one of Neutron's own tests, which binds ports to the host `BINDING_HOST` alone. Starting
takes about four seconds, most of them Neutron's own imports.
"""

from __future__ import annotations

import pathlib
import time
from typing import Self

from lab import keystone, openstack, processes, runs

_HOST = "127.0.0.1"
BINDING_HOST = "host-ovs-no_filter"
# Flat networks may be on any physical network, VLANs on these.
VLANS = "physnet1:100:199,physnet2:200:299"
_CONFIGURATION = """[DEFAULT]
log_file = {home}/neutron.log
state_path = {home}
transport_url = fake://
core_plugin = ml2
service_plugins =
api_paste_config = {paste}
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = sqlite:///{home}/neutron.db
max_retries = 1
retry_interval = 1
[oslo_concurrency]
lock_path = {home}/locks
[ml2]
type_drivers = local,flat,vlan,vxlan
tenant_network_types = vxlan
mechanism_drivers = test
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = {vlans}
[ml2_type_vxlan]
vni_ranges = 1000:1999
[keystone_authtoken]
{validation}
token_cache_time = 1
"""


class Neutron:
    """A Neutron at `address`, known before it starts; the catalog names it in one region."""

    def __init__(self, run: runs.Run, region: str = keystone.REGION) -> None:
        self._run = run
        self._region = region
        self._process: processes.Process | None = None
        self._is_named = False
        self.port = processes.free_port(_HOST)
        self.address = f"http://{_HOST}:{self.port}"
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self, cloud: keystone.Keystone, timeout_s: float = 90.0) -> Self:
        """Return when requests are answered, and the catalog names it; what was made before is there again."""
        openstack.make_environment()
        begun = time.monotonic()
        home = self._run.path(f"neutron-{self.port}")
        configuration = home / "neutron.conf"
        validation = "\n".join(f"{name} = {value}" for name, value in cloud.validation_options().items())
        paste = openstack.ENVIRONMENT / "etc" / "neutron" / "api-paste.ini"
        configuration.write_text(_CONFIGURATION.format(home=home, paste=paste, vlans=VLANS, validation=validation))
        script = pathlib.Path(__file__).with_name("neutron_server.py")
        argv = [str(openstack.PYTHON), "-P", str(script), str(configuration), _HOST, str(self.port)]
        launch = processes.Launch(env=openstack.KEEP_BYTECODE)
        self._process = self._run.spawn(argv, log="neutron-output.log", launch=launch)
        if not self._is_named:
            cloud.name("network", self.address, self._region)
            self._is_named = True
        processes.wait_for_port(_HOST, self.port, timeout_s, self._process)
        self.started_in_s = time.monotonic() - begun
        return self

    def stop(self) -> None:
        """Stop; nobody listens at `address` then."""
        if self._process is not None:
            self._process.stop(timeout_s=5.0)
            self._process = None
