# SPDX-License-Identifier: Apache-2.0
"""Clusters, and templates of them, as clients of OpenStack's data processing know both."""
