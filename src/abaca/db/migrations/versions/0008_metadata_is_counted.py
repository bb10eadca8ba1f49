# SPDX-License-Identifier: Apache-2.0
"""Usage says how much metadata a project has, so that a limit of that is kept without adding all of it up."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COUNTS = (
    "shares, gigabytes, snapshots, snapshot_gigabytes, share_networks, share_groups, share_group_snapshots,"
    " share_replicas, replica_gigabytes, backups, backup_gigabytes, encryption_keys"
)
_OF = {
    "shares": "shares",
    "access_rules": "access_rules JOIN shares ON shares.id = access_rules.share_id",
    "export_locations": "export_locations JOIN share_instances ON share_instances.id ="
    " export_locations.share_instance_id JOIN shares ON shares.id = share_instances.share_id",
}


def upgrade() -> None:
    op.add_column("quota_usages", sa.Column("metadata_characters", sa.BigInteger(), nullable=False, server_default="0"))
    each = "json_each_text" if op.get_bind().dialect.name == "postgresql" else "json_each"
    pairs = " UNION ALL ".join(
        "SELECT shares.project_id, length(pair.key) + length(pair.value) AS characters"  # noqa: S608 - our own names
        f" FROM {rows} JOIN {each}({table}.metadata) AS pair ON true"
        for table, rows in _OF.items()
    )
    nothing = ", ".join("0" for _ in _COUNTS.split(","))
    op.execute(
        f"INSERT INTO quota_usages (project_id, scope, {_COUNTS}, metadata_characters)"  # noqa: S608 - our own names
        f" SELECT project_id, 'project', {nothing}, sum(characters) FROM ({pairs}) AS found WHERE true"
        " GROUP BY project_id"
        " ON CONFLICT (project_id, scope) DO UPDATE SET metadata_characters = excluded.metadata_characters"
    )


def downgrade() -> None:
    with op.batch_alter_table("quota_usages") as table:
        table.drop_column("metadata_characters")
