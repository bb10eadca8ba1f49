# SPDX-License-Identifier: Apache-2.0
"""The chain of migrations, one for all databases. `python -m abaca.db.migrations` writes the next link.

Revisions are numbered 0001, 0002, ... so that two of them compare. A migration first expands: new columns have
defaults, and nothing that the release before reads goes away. A later release contracts.
"""

# The last revision in versions/.
HEAD = "0001"
