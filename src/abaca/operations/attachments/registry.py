# SPDX-License-Identifier: Apache-2.0
"""The kinds of operations on attachments. A new one is one line here."""

from __future__ import annotations

from abaca.operations.attachments import (
    attachment_attach,
    attachment_detach,
    attachment_explain,
    attachment_verify,
    server_check,
)

OPERATIONS = (
    attachment_attach.OPERATION,
    attachment_detach.OPERATION,
    attachment_explain.OPERATION,
    attachment_verify.OPERATION,
    server_check.OPERATION,
)
