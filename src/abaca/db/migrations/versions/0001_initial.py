# SPDX-License-Identifier: Apache-2.0
"""The first schema.

Until the first release it is tables.py as it stands; then `python -m abaca.db.migrations --initial` writes it out, and
every later change of tables.py is a revision of its own.
"""

from alembic import op

from abaca.db import tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    tables.metadata.create_all(op.get_bind())


def downgrade() -> None:
    tables.metadata.drop_all(op.get_bind())
