# SPDX-License-Identifier: Apache-2.0
"""Abaca: a shared file system service that keeps shares mounted where they are wanted."""

__version__ = "0.1.0"
