# SPDX-License-Identifier: Apache-2.0
"""A rule keeps what its user wrote, and beside it the one form of that by which rules are compared."""

import collections
import ipaddress
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ID = sa.String(36)
_RULES = sa.table(
    "access_rules",
    sa.column("id", _ID),
    sa.column("share_id", _ID),
    sa.column("access_type", sa.String),
    sa.column("access_to", sa.String),
    sa.column("access_level", sa.String),
    sa.column("made_for", sa.String),
    sa.column("created_at", sa.DateTime),
    sa.column("is_denied", sa.Boolean),
    sa.column("client", sa.String),
)
_STATES = sa.table("instance_access_rules", sa.column("access_rule_id", _ID))
_LOCKS = sa.table("resource_locks", sa.column("access_rule_id", _ID), sa.column("resource_id", _ID))
# What the release before had in another form than this one.
_OTHERWISE = (
    _RULES.c.access_to.like("%/32"),
    _RULES.c.access_to.like("%/128"),
    _RULES.c.access_to.like("::ffff:%"),
)


def upgrade() -> None:
    op.add_column("access_rules", sa.Column("client", sa.String(255), nullable=True))
    op.execute(_RULES.update().values(client=_RULES.c.access_to))
    db = op.get_bind()
    same = collections.defaultdict(list)
    for row in db.execute(sa.select(_RULES).where(_RULES.c.access_type == "ip", sa.or_(*_OTHERWISE))):
        same[row.share_id, _client(row.access_to)].append(row)
    for (share_id, client), rows in same.items():
        _bring(db, share_id, client, rows)
    op.create_index(
        "ix_access_rules_share_id_access_type_client",
        "access_rules",
        ["share_id", "access_type", "client"],
        unique=True,
    )


def _bring(db: sa.Connection, share_id: str, client: str, rows: Sequence[sa.Row[tuple[object, ...]]]) -> None:
    """Rules of a share for one client become one, which lets in as far as they did together."""
    plain = (_RULES.c.share_id == share_id, _RULES.c.access_type == "ip", _RULES.c.access_to == client)
    same = list({row.id: row for row in (*rows, *db.execute(sa.select(_RULES).where(*plain)))}.values())
    # a user's before one of attachments, which serve themselves of it, and the oldest of users
    same.sort(key=lambda row: (row.is_denied, row.made_for is not None, row.created_at, row.id))
    kept, *others = same
    level = "rw" if "rw" in {row.access_level for row in same if row.is_denied == kept.is_denied} else "ro"
    gone = [row.id for row in others]
    locked = _LOCKS.c.access_rule_id.in_(gone)
    db.execute(_LOCKS.update().where(locked).values(access_rule_id=kept.id, resource_id=kept.id))
    db.execute(_STATES.delete().where(_STATES.c.access_rule_id.in_(gone)))
    db.execute(_RULES.delete().where(_RULES.c.id.in_(gone)))
    db.execute(_RULES.update().where(_RULES.c.id == kept.id).values(client=client, access_level=level))


def _client(access_to: str) -> str:
    network = ipaddress.ip_network(access_to)
    if network.version == 6 and network.prefixlen >= 96 and network.network_address.ipv4_mapped is not None:
        network = ipaddress.IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - 96))
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def downgrade() -> None:
    op.drop_index("ix_access_rules_share_id_access_type_client", table_name="access_rules")
    op.execute(_RULES.update().where(_RULES.c.client.is_not(None)).values(access_to=_RULES.c.client))
    with op.batch_alter_table("access_rules") as table:
        table.drop_column("client")
