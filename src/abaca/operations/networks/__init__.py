# SPDX-License-Identifier: Apache-2.0
"""What is done for share networks: their share servers come, change and go."""
