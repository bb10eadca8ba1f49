# SPDX-License-Identifier: Apache-2.0
"""Shares that are GlusterFS volumes, made by Heketi and sealed by certificates."""

from abaca.drivers.glusterfs.driver import Glusterfs

__all__ = ["Glusterfs"]
