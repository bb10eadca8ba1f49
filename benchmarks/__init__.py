# SPDX-License-Identifier: Apache-2.0
"""What Abaca costs, measured: `python -m benchmarks`, or `make bench`. README.md says how and why."""
