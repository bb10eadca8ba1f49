# SPDX-License-Identifier: Apache-2.0
"""A bare NFS-Ganesha that exports one directory, to try the guests with; the product's own exports are elsewhere."""

from __future__ import annotations

import pathlib

from lab import processes, runs

_CONFIGURATION = """
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
NFSv4 {{ Minor_Versions = 1, 2; RecoveryBackend = fs; RecoveryRoot = "{state}/recovery"; Only_Numeric_Owners = true;
  Grace_Period = 10; Lease_Lifetime = 10; Graceless = true; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{ Export_Id = 1; Path = "{data}"; Pseudo = "/share"; Filesystem_Id = 1.1; Access_Type = RW;
  Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}
"""


class NfsServer:
    """Serves the directory `data` as `/share` on `port` of all addresses, here or in the namespace `netns`."""

    def __init__(self, run: runs.Run, netns: str | None = None) -> None:
        processes.need("ganesha.nfsd", package="nfs-ganesha nfs-ganesha-vfs")
        self.run = run
        self.netns = netns
        self.port = processes.free_port()
        self.data = run.path("nfs", "data")
        self._state = run.path("nfs")

    def start(self) -> NfsServer:
        """Return when connections are accepted."""
        self._state.joinpath("recovery").mkdir(exist_ok=True)
        configuration = self._state / "ganesha.conf"
        configuration.write_text(_CONFIGURATION.format(port=self.port, state=self._state, data=self.data))
        words = {
            "-f": configuration,
            "-L": self._state / "ganesha.log",
            "-p": self._state / "ganesha.pid",
            "-N": "NIV_EVENT",
        }
        argv = ["ganesha.nfsd", "-F", *(str(word) for pair in words.items() for word in pair)]
        bus = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self._no_bus()}"}
        self.process = self.run.spawn(argv, log="nfs/output.log", launch=processes.Launch(env=bus, netns=self.netns))
        if self.netns is None:
            processes.wait_for_port("127.0.0.1", self.port, 20.0, self.process)
        return self

    def _no_bus(self) -> pathlib.Path:
        return self._state / "no-bus"
