# SPDX-License-Identifier: Apache-2.0
"""Shares and what belongs to them: instances, export locations, access rules."""
