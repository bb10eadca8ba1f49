# SPDX-License-Identifier: Apache-2.0
"""Thin doors to what drivers talk to: commands, system calls, services. No decisions here."""
