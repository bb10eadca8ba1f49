# SPDX-License-Identifier: Apache-2.0
"""A worker of the local driver that stands still inside a call: `python -m tests.drivers.late DIR JSON ID CALL`.

It makes a share, stops itself as the call begins, and prints how the call ended once it was thawed.
"""

import json
import os
import signal
import sys
from pathlib import Path

from abaca import errors
from abaca.drivers import contract
from tests.drivers.crashing import build
from tests.drivers.harness import rules

BEFORE, DURING = 1_700_000_000_000_000, 1_700_000_000_000_010

CALLS = {
    "set_access": lambda driver, share: driver.set_access(share, rules("10.6.6.6 rw")),
    "create": lambda driver, share: driver.create(share),
    "extend": lambda driver, share: driver.extend(share, 3),
}


def share(id, generation):
    """The share's instance in a call of that generation."""
    kept = {"share_id": id, "project_id": "p", "size_gib": 1, "protocol": "NFS", "pool": "pool"}
    return contract.ShareInstance(id=id, generation=generation, **kept)


def stand_still(frame, event, argument):
    """Once, where a call to the driver takes hold of the instance."""
    if event == "call" and frame.f_code.co_name == "one" and "/drivers/local/" in frame.f_code.co_filename:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGSTOP)


def main(directory, section, id, call):
    driver = build(Path(directory), json.loads(section))
    driver.start()
    if call != "create":
        driver.create(share(id, BEFORE))
    sys.setprofile(stand_still)
    try:
        CALLS[call](driver, share(id, DURING))
        ended = "done"
    except errors.BackendError as error:
        ended = error.code
    os.write(1, f"{ended}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
