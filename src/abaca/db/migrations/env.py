# SPDX-License-Identifier: Apache-2.0
"""What Alembic runs: the connection and its transaction come from abaca.db.engine.schema."""

from alembic import context

from abaca.db import tables
from abaca.db.tables import columns

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
    render_as_batch=True,
    compare_type=True,
    compare_server_default=True,
    include_object=columns.is_compared,
)
with context.begin_transaction():
    context.run_migrations()
