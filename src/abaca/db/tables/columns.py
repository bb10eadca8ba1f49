# SPDX-License-Identifier: Apache-2.0
"""What the columns of all tables are made of."""

from __future__ import annotations

import sqlalchemy as sa

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = sa.MetaData(naming_convention=NAMING)


def text(length: int) -> sa.String:
    """What only programs read: compared byte by byte, which makes a page a sixth cheaper than a language's order."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


ID = text(36)
KEY = text(255)
NAME = sa.String(255)
TIME = sa.DateTime()


def an_id() -> sa.Column[str]:
    """The primary key."""
    return sa.Column("id", ID, primary_key=True)


def times() -> tuple[sa.Column[object], sa.Column[object]]:
    """When it came, and when it changed last."""
    return sa.Column("created_at", TIME, nullable=False), sa.Column("updated_at", TIME)
