# SPDX-License-Identifier: Apache-2.0
"""Where events go: one file for each kind of target. Who takes them there is reconcile/events.py."""
