# SPDX-License-Identifier: Apache-2.0
"""Clusters: shares on every one of their nodes."""
