# SPDX-License-Identifier: Apache-2.0
"""The engine of the doors: the way of a request, versions, bodies, pages, errors. No resource is known here."""
