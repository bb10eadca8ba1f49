# SPDX-License-Identifier: Apache-2.0
"""Fill a database: `python -m benchmarks.population URL SHARES`."""

import sys

from benchmarks import population

population.fill(sys.argv[1], int(sys.argv[2]))
