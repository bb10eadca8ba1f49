# SPDX-License-Identifier: Apache-2.0
"""How a command ends."""

# As sysexits.h: the configuration must be mended first, so whoever restarts services should not try again.
EX_CONFIG = 78
EX_FAILED = 1
