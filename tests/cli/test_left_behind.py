# SPDX-License-Identifier: Apache-2.0
"""Who ensures a back end, and waits for the end, is told who still uses an address that is exported no more."""

import datetime

from abaca.db.tables.attachments import attachments
from tests import planting
from tests.api.attachments import test_attachments as door

OLD = "10.0.0.99"


def test_ensuring_warns_of_attachments_that_still_use_an_old_address(abaca, world):
    file = world.directory / "abaca.conf"
    attachment = door.attached(world, door.share(world), door.server(world))["id"]
    quiet = abaca("backend", "ensure", "testhost@alpha", "--watch", "--config-file", file)
    assert (quiet.status, "is not exported any more" in quiet.out) == (0, False), quiet
    # files are open there, and the next try is far off
    open_files = {"state": "error", "error_code": "StillOpen", "error_text": "files are open", "attempts": 9}
    later = world.db.now() + datetime.timedelta(days=1)
    where = attachments.c.id == attachment
    planting.put(world.db, attachments, where, source=f"{OLD}:/old", retry_at=later, **open_files)
    said = abaca("backend", "ensure", "testhost@alpha", "--watch", "--config-file", file)
    assert said.status == 0, said
    assert f"{OLD} is not exported any more, and 1 attachment is mounted from it:" in said.out
    assert attachment in said.out
