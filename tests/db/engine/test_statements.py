# SPDX-License-Identifier: Apache-2.0
"""A statement that goes straight to the driver says what SQLAlchemy would say."""

import datetime

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from abaca.db.engine import lists
from abaca.db.engine.statements import Statements, columns_of, joined, planned_for_values
from abaca.db.tables.catalog import share_types
from tests.databases import on_postgres
from tests.db.watched import Watched

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001
ADD = sa.insert(share_types).inline()
ROW = {"name": "gold", "description": None, "is_public": True, "extra_specs": {"a": "b", "ü": '"'}, "created_at": NOW}
SHOW = sa.select(share_types).where(share_types.c.id == sa.bindparam("which"))
SOME = sa.select(share_types.c.id).where(share_types.c.name.in_(sa.bindparam("names", expanding=True)))
RAISE = (
    sa.update(share_types)
    .where(share_types.c.id == sa.bindparam("which"), share_types.c.is_public.in_([True, False]))
    .values(description=share_types.c.name + "!", updated_at=sa.bindparam("at"))
    .returning(share_types.c.description, share_types.c.updated_at)
)
NAMES = sa.text("SELECT name AS called, 1 AS one FROM share_types WHERE id = :which")
TIMES = 8


@pytest.fixture
def db(database):
    return database.open()


def add(db, *numbers):
    with db.write() as tx:
        for number in numbers:
            tx.execute(ADD, {**ROW, "id": f"t{number}", "name": f"gold{number}"})


def test_rows_are_what_sqlalchemy_gives(db):
    add(db, *range(TIMES))
    with db.read() as tx:
        theirs = tx.connection.execute(SHOW, {"which": "t3"}).one()
        for _ in range(TIMES):
            ours = tx.row(SHOW, {"which": "t3"})
            assert (tuple(ours), ours._mapping, ours.created_at) == (tuple(theirs), theirs._mapping, NOW)
            assert ours.is_public is True


def test_text_has_the_names_that_it_gives(db):
    add(db, 1)
    with db.read() as tx:
        for _ in range(TIMES):
            assert tx.row(NAMES, {"which": "t1"})._asdict() == {"called": "gold1", "one": 1}
            assert tx.row(NAMES, {"which": "none"}) is None


def test_lists_may_have_any_length(db):
    add(db, *range(TIMES))
    with db.read() as tx:
        for length in (*range(TIMES), *range(TIMES)):
            names = [f"gold{number}" for number in range(length)]
            assert len(tx.rows(SOME, {"names": names})) == length


SHOWN, RAISED, LOOKED_FOR = planned_for_values(SHOW), planned_for_values(RAISE), planned_for_values(SOME)


def test_what_is_planned_for_its_values_gives_and_does_the_same(db):
    strange = 'it\'s 100% \\ "gold" %(which)s ü'
    add(db, 1)
    with db.write() as tx:
        tx.execute(planned_for_values(ADD), {**ROW, "id": "t2", "name": strange})
        tx.execute(planned_for_values(ADD), [{**ROW, "id": f"t{number}", "name": f"n{number}"} for number in (3, 4)])
    with db.read() as tx:
        for _ in range(TIMES):
            assert tuple(tx.row(SHOWN, {"which": "t2"})) == tuple(tx.connection.execute(SHOW, {"which": "t2"}).one())
            assert tx.row(SHOWN, {"which": "t2"}).name == strange
            assert [row.id for row in tx.rows(LOOKED_FOR, {"names": [strange, "nobody's"]})] == ["t2"]
            assert tx.rows(LOOKED_FOR, {"names": []}) == []
    with db.write() as tx:
        assert tuple(tx.row(RAISED, {"which": "t1", "at": NOW})) == ("gold1!", NOW)
        assert tx.execute(RAISED, {"which": "none", "at": NOW}).rowcount == 0


HIDDEN = sa.select(share_types.c.id).where(share_types.c.is_public == sa.bindparam("public"))


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize(("statement", "guess"), [(HIDDEN, 1500), (planned_for_values(HIDDEN), 1)])
def test_a_plan_for_values_knows_them(database, statement, guess):
    """Of any value of a column that has two, half of the rows are thought to have it."""
    watched = Watched()
    with watched.on():
        db = database.open()
        with db.write() as tx:
            tx.execute(ADD, [{**ROW, "id": f"t{n}", "name": f"g{n}", "is_public": n > 0} for n in range(3000)])
            tx.connection.exec_driver_sql("ANALYZE share_types")
        watched.forget()
        with db.read() as tx:
            for _ in range(TIMES):
                assert tx.scalar(statement, {"public": False}) == "t0"
    (*_, seen) = watched.statements(db)
    assert seen.lines[0] == f"Seq Scan share_types rows={guess}"


@pytest.mark.parametrize("separator", [" ", "\n"], ids=["blank", "line"])
def test_texts_in_one_go_straight_to_the_driver(db, separator):
    """A separator that SQLAlchemy puts in at each run costs fifty times what the statement does."""
    add(db, 1, 2)
    names, known = sa.select(joined(share_types.c.name, separator)), Statements()
    with db.read() as tx:
        for _ in range(TIMES):
            assert sorted(tx.scalar(names).split(separator)) == ["gold1", "gold2"]
            compiled = known.ready(tx.connection.dialect, names, {})
    assert compiled is not None


def test_what_returns_rows_may_be_run_for_its_effect(db):
    add(db, 1)
    for number in range(TIMES):
        at = NOW + datetime.timedelta(seconds=number)
        with db.write() as tx:
            tx.execute(RAISE, {"which": "t1", "at": at})
            tx.execute(RAISE, {"which": "none", "at": at})
        with db.write() as tx:
            assert tx.row(SHOW, {"which": "t1"}).updated_at == at
            assert tuple(tx.row(RAISE, {"which": "t1", "at": NOW})) == ("gold1!", NOW)


def test_a_statement_takes_other_columns_another_time(db):
    add(db, 1, 2, 3)
    with db.write() as tx:
        for number in range(4, 4 + TIMES):
            tx.execute(ADD, {**ROW, "id": f"t{number}", "name": f"n{number}", "updated_at": NOW})
    with db.read() as tx:
        assert [tx.row(SHOW, {"which": which}).updated_at for which in ("t3", "t9")] == [None, NOW]


def test_an_error_is_sqlalchemys_and_the_transaction_is_gone(db):
    add(db, 1, 2)
    for _ in range(TIMES):
        with pytest.raises(exc.IntegrityError):
            add(db, 8, 1)
    with db.read() as tx:
        assert tx.row(SHOW, {"which": "t8"}) is None


def test_an_error_does_not_tell_the_values(db):
    """It is logged whole, and among them may be a key that a back end gave out."""
    add(db, 1)
    for _ in range(3):  # through SQLAlchemy, and then past it
        with pytest.raises(exc.IntegrityError) as raised, db.write() as tx:
            tx.execute(ADD, {**ROW, "id": "t1", "name": "other", "description": "a secret"})
        assert "a secret" not in str(raised.value)
        assert "INSERT" in str(raised.value)


def test_a_count_sees_what_changes(db):
    kinds = lists.Listing(share_types, filters={"name_like": lists.contains(share_types.c.name)})
    for number in range(TIMES):
        add(db, number)
        with db.read() as tx:
            assert kinds.count(tx, {"name_like": "gold"}) == number + 1


class Gold(msgspec.Struct, frozen=True):
    """Some columns of a share type, in another order than the table's."""

    name: str
    id: str
    specs: dict[str, str]
    created_at: datetime.datetime


class Silver(Gold, frozen=True):
    """It wants more than the statement selects."""

    updated_at: datetime.datetime | None


GOLD = sa.select(*columns_of(Gold, share_types, specs=share_types.c.extra_specs)).order_by(share_types.c.id)


def test_rows_become_entities_whoever_runs_the_statement(db):
    add(db, *range(TIMES))
    with db.read() as tx:
        for _ in range(TIMES):
            found = tx.entities(Gold, GOLD)
            assert [one.id for one in found] == [f"t{number}" for number in range(TIMES)]
            assert found[3] == Gold("gold3", "t3", ROW["extra_specs"], NOW)


def test_one_entity_or_none(db):
    add(db, 1)
    one = GOLD.where(share_types.c.id == sa.bindparam("which"))
    with db.read() as tx:
        for _ in range(TIMES):
            assert tx.entity(Gold, one, {"which": "t1"}) == Gold("gold1", "t1", ROW["extra_specs"], NOW)
            assert tx.entity(Gold, one, {"which": "none"}) is None


def test_a_list_gives_entities_by_the_names_of_their_fields(db):
    class Named(msgspec.Struct, frozen=True):
        name: str
        is_public: bool

    add(db, 1, 2)
    kinds = lists.Listing(share_types, sorts=("name",))
    page = lists.Page(1, sort_key="name")
    with db.read() as tx:
        for _ in range(TIMES):
            assert kinds.entities(tx, Named, {}, page) == [Named("gold2", is_public=True)]
            assert kinds.entity(tx, Named, {"id": "t1"}) == Named("gold1", is_public=True)


def test_an_entity_of_other_fields_is_refused(db):
    add(db, 1)
    with db.read() as tx:
        for _ in range(3):  # through SQLAlchemy, and then past it, where a type that fits has been before
            with pytest.raises(TypeError, match="Silver has the fields"):
                tx.entities(Silver, GOLD)
            assert tx.entities(Gold, GOLD)


def test_a_field_without_a_column_is_said_at_once():
    with pytest.raises(TypeError, match=r"no column for Gold\.specs"):
        columns_of(Gold, share_types)
