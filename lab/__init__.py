# SPDX-License-Identifier: Apache-2.0
"""The lab: real components that the tour and the system tests start on this machine, and take away again.

A `runs.Run` owns everything that one tour or one test session starts, and clears it away however it ends:

    with runs.Run() as run:
        network = fabric.Fabric(run)                        # a bridge; the host is network.host_ipv4, .host_ipv6
        machine = client.start(network)                     # machine.ipv4; machine.check(["mount", ...])
        database = postgres.Postgres(run).start()           # database.create_database("x") is its address
        abaca = service.Service(run, {"DEFAULT": {...}})    # abaca run; abaca.start(), .kill(), .url
        identity = keystone.Keystone(run, abaca.url).start()
        user = caller.Caller(abaca.url, caller.token(identity.token("demo")))

What is not installed raises `processes.Missing` with the mend. No component imports anything of the product.
Beside them lie the makers of new drivers and of reference pages.
"""
