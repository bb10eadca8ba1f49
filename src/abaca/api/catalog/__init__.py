# SPDX-License-Identifier: Apache-2.0
"""What operators offer: share types, quotas, zones."""
