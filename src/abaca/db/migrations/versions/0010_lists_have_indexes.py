# SPDX-License-Identifier: Apache-2.0
"""Each list has an index for what it can be asked for, and its pages cost the same however many rows there are.

Outside of a transaction on PostgreSQL: nobody who writes waits while an index is made. A run that ends half-way is
repeated: what it has made stays, and an index that it left half-made is dropped and made anew.
"""

import logging

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None
# read by `abaca db upgrade`
outside_transaction = True

_ORDERED = ("created_at", "id")
# name of the index, table, columns, and of which rows alone
INDEXES = [
    ("ix_shares_project_id_name_created_at_id", "shares", ("project_id", "name", *_ORDERED), None),
    ("ix_shares_name_created_at_id", "shares", ("name", *_ORDERED), None),
    ("ix_shares_user_id_created_at_id", "shares", ("user_id", *_ORDERED), None),
    ("ix_shares_share_proto_created_at_id", "shares", ("share_proto", *_ORDERED), None),
    ("ix_shares_is_soft_deleted", "shares", ("project_id", *_ORDERED), "is_soft_deleted IS {true}"),
    *(
        (f"ix_shares_{name}", "shares", (name,), f"{name} IS NOT NULL")
        for name in ("description", "snapshot_id", "share_group_id", "encryption_key_ref", "mount_point_name")
    ),
    ("ix_share_instances_share_server_id", "share_instances", ("share_server_id",), "share_server_id IS NOT NULL"),
    ("ix_share_instances_availability_zone", "share_instances", ("availability_zone",), None),
    ("ix_share_instances_created_at_id", "share_instances", _ORDERED, None),
    ("ix_operations_kind", "operations", ("kind",), None),
    ("ix_operations_resource_type", "operations", ("resource_type",), None),
    *(
        (f"ix_messages_{name}_created_at_id", "messages", (name, *_ORDERED), None)
        for name in ("request_id", "resource_type", "action_id", "detail_id", "message_level")
    ),
    *(
        (f"ix_resource_locks_{name}_created_at_id", "resource_locks", (name, *_ORDERED), None)
        for name in ("user_id", "lock_context", "resource_type", "resource_action")
    ),
    *(
        (f"ix_servers_{name}_created_at_id", "servers", (name, *_ORDERED), None)
        for name in ("user_id", "status", "availability_zone")
    ),
    ("ix_servers_name_project_id_id", "servers", ("name", "project_id", "id"), None),
    ("ix_attachments_created_at_id", "attachments", _ORDERED, "project_id > ''"),
    ("ix_attachments_mode_created_at_id", "attachments", ("mode", *_ORDERED), None),
    ("ix_orphaned_mounts_created_at_id", "orphaned_mounts", _ORDERED, None),
    ("ix_orphaned_mounts_machine_id_created_at_id", "orphaned_mounts", ("machine_id", *_ORDERED), None),
    *(
        (f"ix_events_{name}_seq", "events", (name, "seq"), None)
        for name in ("event_type", "resource_type", "project_id")
    ),
]
_METADATA = ("ix_shares_metadata", "USING gin (CAST(metadata AS jsonb) jsonb_path_ops)")
_TRIGRAMS = [
    (f"ix_shares_{name}_trigrams", f"USING gin (lower({name}) gin_trgm_ops)") for name in ("name", "description")
]
_REPLACED = ("ix_shares_project_id_name", "shares", ["project_id", "name"])


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _make_concurrently()
    else:
        for name, table, columns, of in INDEXES:
            condition = None if of is None else sa.text(of.format(true="1"))
            op.create_index(name, table, list(columns), sqlite_where=condition)
    op.drop_index(_REPLACED[0], table_name=_REPLACED[1], if_exists=True)


def _make_concurrently() -> None:
    for name, table, columns, of in INDEXES:
        condition = "" if of is None else f" WHERE {of.format(true='TRUE')}"
        _make(name, table, f"({', '.join(columns)}){condition}")
    _make(_METADATA[0], "shares", _METADATA[1])
    if _has_trigrams():
        for name, what in _TRIGRAMS:
            _make(name, "shares", what)
    # what the planner knows of the new indexes' expressions
    op.execute("ANALYZE shares")


def _make(name: str, table: str, what: str) -> None:
    found = (
        op.get_bind()
        .execute(sa.text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"), {"name": name})
        .scalar()
    )
    if found is False:
        op.execute(f"DROP INDEX CONCURRENTLY {name}")
    if not found:
        op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} {what}")


def _has_trigrams() -> bool:
    """Whether PostgreSQL has the extension; without it a part of a name is looked for in every row."""
    try:
        op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except sa.exc.DBAPIError as error:
        logging.getLogger("abaca").warning(
            "PostgreSQL's extension pg_trgm cannot be had, so lists of shares by a part of a name or of a description "
            "read every share that they may show: %s. To mend it see the page about upgrades.",
            str(error.orig).splitlines()[0],
        )
        return False
    return True


def downgrade() -> None:
    op.create_index(*_REPLACED)
    if op.get_context().dialect.name == "postgresql":
        for name, _ in (_METADATA, *_TRIGRAMS):
            op.drop_index(name, table_name="shares", if_exists=True)
        op.execute("DROP EXTENSION IF EXISTS pg_trgm")
    for name, table, _columns, _of in INDEXES:
        op.drop_index(name, table_name=table)
