# SPDX-License-Identifier: Apache-2.0
"""Servers, and shares attached to them."""
