# SPDX-License-Identifier: Apache-2.0
"""Queries about share networks, their subnets, and security services."""
