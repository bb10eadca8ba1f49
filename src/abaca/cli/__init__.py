# SPDX-License-Identifier: Apache-2.0
"""The `abaca` command: `run`, `api`, `worker`, `db`, `operation`, `backend`, `config`."""
