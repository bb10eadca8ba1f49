# SPDX-License-Identifier: Apache-2.0
"""How many attachments there are is known without counting them, and lists of share servers have indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_ID = sa.String(36).with_variant(sa.String(36, collation="C"), "postgresql")
_FIRST = "00000000-0000-7000-8000-000000000000"
INDEXES = (("project_id", "created_at", "id"), ("status", "created_at", "id"), ("identifier",))


def upgrade() -> None:
    op.create_table(
        "attachment_counts",
        sa.Column("id", _ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachment_counts")),
    )
    op.execute(
        f"INSERT INTO attachment_counts (id, number) SELECT '{_FIRST}', count(*) FROM attachments"  # noqa: S608
    )
    op.create_index("ix_share_networks_name", "share_networks", ["name"])
    for columns in INDEXES:
        op.create_index(f"ix_share_servers_{'_'.join(columns)}", "share_servers", list(columns))
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE share_servers ALTER COLUMN project_id SET (n_distinct = 1)")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE share_servers ALTER COLUMN project_id RESET (n_distinct)")
    for columns in INDEXES:
        op.drop_index(f"ix_share_servers_{'_'.join(columns)}", "share_servers")
    op.drop_index("ix_share_networks_name", "share_networks")
    op.drop_table("attachment_counts")
