# SPDX-License-Identifier: Apache-2.0
"""The door for tests that put rows into states by hand, as a fault, an import or an operator's SQL would leave them.

Abaca's own transactions refuse that (db/engine/guard.py). Here is a transaction on a connection that Abaca did not
make, so nothing in src can go through it.
"""

import contextlib

import sqlalchemy as sa

from abaca.db.engine import schema, statements
from abaca.db.engine.database import Tx


@contextlib.contextmanager
def by_hand(db):
    """A transaction on the database of `db` that may write anything; it commits at the end of the block."""
    engine = schema.migration_engine(db.url)
    try:
        with engine.connect() as connection, connection.begin():
            tx = Tx(connection, db.now(), statements.Statements())
            yield tx
            tx.flush()
    finally:
        engine.dispose()


def put(db, table, *conditions, **values):
    """Set columns of the rows that meet the conditions, states as well."""
    with by_hand(db) as tx:
        tx.execute(sa.update(table).where(*conditions).values(**values))
