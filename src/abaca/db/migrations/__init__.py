# SPDX-License-Identifier: Apache-2.0
"""The chain of migrations, one for all databases. `python -m abaca.db.migrations` writes the next link.

Revisions are numbered 0001, 0002, ... so that two of them compare. Programs know the schema of their own release
only and are stopped for an upgrade; a migration that expands first and contracts a release later keeps the way back.

A revision holds all that it needs: it imports nothing of ours, which may change. `released.txt` names the revisions
that somebody's database may have, with their checksums; these never change. A release adds the new ones:
`(cd versions && sha256sum 0002_*.py >> ../released.txt)`, and `python -m tests.db.filling` keeps the rows of a database
of that day, which every later release must be able to upgrade (tests/db/test_upgrade.py).

Where two branches bring the same number, the one that is merged later takes the next: the name of its file, `revision`,
`down_revision`, and HEAD here.
"""

# The last revision in versions/.
HEAD = "0028"
