# SPDX-License-Identifier: Apache-2.0
"""Shares on the worker's own host: btrfs and NFS-Ganesha."""

from abaca.drivers.local.driver import Local

__all__ = ["Local"]
