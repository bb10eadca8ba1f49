# SPDX-License-Identifier: Apache-2.0
"""Durable work: the journal and one file per operation."""
