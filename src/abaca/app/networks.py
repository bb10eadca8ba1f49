# SPDX-License-Identifier: Apache-2.0
"""What gives share servers their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.networks.contract import NetworkPlugin
    from abaca.settings import Backend, Settings


def network_plugin(settings: Settings, db: Database) -> NetworkPlugin:
    """The plug-in that `[networks] plugin` names. Raises `ConfigError`."""
    if settings.networks.plugin == "standalone":
        from abaca.networks.standalone import Standalone

        return Standalone(db, settings.networks, settings.declared_subnets)
    check_networks(settings)
    from abaca.networks.neutron import Neutron

    return Neutron(db, settings.networks)


def check_networks(settings: Settings) -> None:
    """Raises `ConfigError` for a Neutron that could not be asked by these settings; nobody is asked."""
    if settings.networks.plugin != "neutron":
        return
    import importlib.util

    if importlib.util.find_spec("openstack") is None:
        raise errors.ConfigError(
            problem="[networks] plugin = neutron needs openstacksdk", mend="Install it: pip install 'abaca[neutron]'"
        )
    from abaca.networks import neutron

    neutron.check(settings.networks)


def network_of(settings: Settings, db: Database, backend: Backend) -> NetworkPlugin | None:
    """The same for a back end, where that makes share servers."""
    return network_plugin(settings, db) if backend.driver_handles_share_servers else None


def see_to_addresses(settings: Settings, db: Database) -> list[PeriodicTask]:
    """That no address is left behind, where they are kept elsewhere."""
    if settings.networks.plugin == "standalone" or not any(
        backend.driver_handles_share_servers for backend in settings.backends
    ):
        return []
    from abaca.journal.periodic_tasks import PeriodicTask
    from abaca.reconcile.network_allocations import NetworkAllocations

    return [PeriodicTask("leaked addresses", 3600, NetworkAllocations(db, network_plugin(settings, db)).heal)]
