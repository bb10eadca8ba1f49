# SPDX-License-Identifier: Apache-2.0
"""The lab: real components that the tour and the system tests start on this machine, and take away again.

A `runs.Run` owns everything that one tour or one test session starts; `guest`, `client`, `postgres` and `keystone` are
the components. Nothing here is part of the product, and nothing of the product is imported here.
"""
