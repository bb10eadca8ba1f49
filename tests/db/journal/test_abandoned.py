# SPDX-License-Identifier: Apache-2.0
"""Who is frozen in the middle of a transaction keeps others waiting for a while, not for ever."""

import pytest
import sqlalchemy as sa

from abaca.db.administration import services
from abaca.db.engine.database import Database
from abaca.db.tables import administration as administration_tables
from abaca.journal import interruptions

pytestmark = pytest.mark.system
HOST = "host@alpha"


def test_what_a_frozen_transaction_has_locked_is_given_to_others(postgres):
    url = postgres.new_database()
    frozen, other = Database(url, abandoned_s=0.5), Database(url)
    with frozen.write() as tx:
        services.register(tx, services.SHARE_BINARY, HOST, "nova")
    with pytest.raises(interruptions.DATABASE_AWAY), frozen.write() as tx:  # noqa: PT012 - the last line alone fails
        services.set_ensuring(tx, HOST, ensuring=True)
        # nothing more is heard of that one: this waits for its lock
        with other.write() as second:
            services.set_backend_info(second, HOST, "there")
        services.set_ensuring(tx, HOST, ensuring=True)
    with other.read() as tx:
        row = tx.row(
            sa.select(administration_tables.services.c.ensuring, administration_tables.services.c.backend_info)
        )
    assert tuple(row) == (False, "there")
    frozen.close()
    other.close()
