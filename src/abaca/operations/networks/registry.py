# SPDX-License-Identifier: Apache-2.0
"""The kinds of operations on share networks. A new one is one line here."""

from __future__ import annotations

from abaca.operations.networks import (
    security_service_check,
    share_network_add_subnet,
    share_network_check,
    share_network_look,
    share_server_add_subnet,
    share_server_create,
    share_server_delete,
    share_server_join,
    share_server_manage,
    share_server_mend,
    share_server_remove_subnet,
    share_server_unmanage,
    share_server_update_subnet,
)

OPERATIONS = (
    security_service_check.OPERATION,
    share_network_add_subnet.OPERATION,
    share_network_check.OPERATION,
    share_network_look.OPERATION,
    share_server_add_subnet.OPERATION,
    share_server_create.OPERATION,
    share_server_delete.OPERATION,
    share_server_join.OPERATION,
    share_server_manage.OPERATION,
    share_server_mend.OPERATION,
    share_server_remove_subnet.OPERATION,
    share_server_unmanage.OPERATION,
    share_server_update_subnet.OPERATION,
)
