# SPDX-License-Identifier: Apache-2.0
"""What is done on a machine to mount a share there, over SSH; nothing here knows the database."""
