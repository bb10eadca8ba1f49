# SPDX-License-Identifier: Apache-2.0
"""Durable work: what an operation is, how one is queued, and the worker that runs it."""
