# SPDX-License-Identifier: Apache-2.0
"""The database itself: connections, statements, lists, the schema."""
