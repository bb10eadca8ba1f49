# SPDX-License-Identifier: Apache-2.0
"""What the rows of `large.py` are written with: words that databases spell differently, and whose the rows are."""

LARGE = "large"
COMMON, RARE, NONE = "common", "rare", "none"


class Words:
    """What the two databases spell differently."""

    def __init__(self, dialect, number):
        self.is_postgresql = dialect == "postgresql"
        self.number = number
        self.true, self.false = ("true", "false") if self.is_postgresql else ("1", "0")

    def run(self, connection, statement):
        # psycopg takes a single one for the beginning of a parameter
        connection.exec_driver_sql(statement.replace("%", "%%") if self.is_postgresql else statement)

    def json(self, value):
        text = f"""'{{"k": "{value}"}}'"""
        return f"CAST({text} AS json)" if self.is_postgresql else text

    def numbers(self, number):
        """Rows `i` from 0."""
        if self.is_postgresql:
            return f"generate_series(0, {number - 1}) AS n (i)"
        counted = f"SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {number - 1}"  # noqa: S608 - a number of ours
        return f"(WITH RECURSIVE n (i) AS ({counted}) SELECT i FROM n)"  # noqa: S608 - that

    def id(self, of="i"):
        """An id for a number, in no order."""
        if self.is_postgresql:
            first = f"lpad(to_hex({of}::bigint * 2654435761 % 4294967296), 8, '0')"
            return f"{first} || lpad(to_hex({of}), 28, '-0000-4000-8000-000000000000')"
        return f"printf('%08x-0000-4000-8000-%012x', {of} * 2654435761 % 4294967296, {of})"

    def time(self, seconds="i"):
        """So many seconds after the first."""
        if self.is_postgresql:
            return f"timestamp '2026-01-01' + ({seconds}) * interval '1 second'"
        return f"strftime('%Y-%m-%d %H:%M:%S.000000', '2026-01-01', '+' || ({seconds}) || ' seconds')"

    def rare(self, value, other, number, at=0):
        """The value in four rows of `number`, all of them LARGE's, and another in the rest."""
        return f"CASE WHEN i % {max(number // 4, 10)} = {at} THEN {value} ELSE {other} END"


def project(i="i"):
    return f"CASE WHEN {i} % 10 = 0 THEN '{LARGE}' ELSE 'p' || {i} % 997 END"


def either(words, number):
    return words.rare(f"'{RARE}'", f"'{COMMON}'", number)
