# SPDX-License-Identifier: Apache-2.0
"""What each revision makes of the rows that it finds: what the tests of upgrading expect afterwards.

To say that revision 0002 does something to rows that were there, write a function that takes the rows by table, as
filled/<revision>.json has them, changes them in place to what they are at 0002 (a column that went is popped, one that
came with a value gets it, the rows of a new table are put under its name) and enter it in BECOMES. A revision without
an entry keeps every row and every column. Columns that rows do not name are not compared.
"""

BECOMES = {}


def after(rows, revisions):
    """The rows as they are after these revisions, given in order."""
    for revision in revisions:
        if revision in BECOMES:
            BECOMES[revision](rows)
    return rows
