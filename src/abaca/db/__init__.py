# SPDX-License-Identifier: Apache-2.0
"""Tables, and one file of queries per entity. SQL lives here and nowhere else."""
