# SPDX-License-Identifier: Apache-2.0
"""Loops that take no input: they read how things are and how they should be, and are safe to run at any time."""
