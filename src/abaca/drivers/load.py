# SPDX-License-Identifier: Apache-2.0
"""From a back end's settings to its driver: `driver = local` is the class that `abaca.drivers.local` holds.

Drivers from other packages are found by the entry point group `abaca.drivers`. There is no list to edit.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from abaca import drivers, errors
from abaca.drivers import contract

ENTRY_POINTS = "abaca.drivers"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# What only a back end with share servers can have.
_OF_SHARE_SERVERS = (
    "security_service_update_support",
    "network_allocation_update_support",
    "share_server_multiple_subnet_support",
)
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def driver(backend: contract.Backend, name: str, section: Mapping[str, str]) -> contract.Driver:
    """The driver called `name`, constructed but not started. Raises `errors.ConfigError`."""
    found = driver_class(name)
    if backend.driver_handles_share_servers and not issubclass(found, contract.RunsServers):
        raise errors.ConfigError(
            problem=f"[{backend.name}] wants share servers, which the driver '{name}' does not handle",
            mend="Set driver_handles_share_servers = false.",
        )
    return found(backend, options(found, section, where=backend.name))


def driver_class(name: str) -> type[contract.Driver]:
    """The class of the driver called `name`. Raises `errors.ConfigError` with the nearest name."""
    for entry_point in _outside(tuple(sys.path)):
        if entry_point.name == name:
            loaded = entry_point.load()
            if inspect.isclass(loaded) and issubclass(loaded, contract.Driver):
                return loaded
            raise errors.ConfigError(problem=f"The entry point '{name}' is no driver class", mend="Ask who ships it.")
    found = _in_module(name) if _NAME.fullmatch(name) else None
    if found is None:
        raise errors.ConfigError(problem=f"There is no driver '{name}'", mend=_nearest(name, names()))
    return found


def names() -> list[str]:
    """Every driver that can be named, sorted."""
    shipped = [module.name for module in pkgutil.iter_modules(drivers.__path__)]
    outside = [entry_point.name for entry_point in _outside(tuple(sys.path))]
    return sorted({*outside, *(name for name in shipped if _in_module(name))})


@functools.cache
def _outside(_places: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """The drivers of packages in these places; to look for them is to read the metadata of each package."""
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def is_within(module: str, path: str) -> bool:
    """Whether a module is the module or package at the path, or below it."""
    return f"{module}.".startswith(f"{path}.")


def _in_module(name: str) -> type[contract.Driver] | None:
    path = f"{drivers.__name__}.{name}"
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name == path:
            return None
        raise
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, contract.Driver)
        and is_within(value.__module__, path)
        and not inspect.isabstract(value)
    ]
    return classes[0] if len(classes) == 1 else None


def options(found: type[contract.Driver], section: Mapping[str, str], *, where: str) -> Any:
    """The driver's options from the strings of the INI section `where`. Raises `errors.ConfigError`."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(found.Options)}
    values = {}
    for key, text in section.items():
        if key not in fields:
            raise errors.ConfigError(problem=f"[{where}] has no option '{key}'", mend=_nearest(key, fields))
        try:
            values[key] = msgspec.convert(_value(text, fields[key].type), fields[key].type, strict=False)
        except (ValueError, msgspec.ValidationError) as error:
            raise errors.ConfigError(
                problem=f"[{where}] {key} = {text}: {error}", mend=_description(fields[key])
            ) from error
    try:
        return msgspec.convert(values, found.Options)
    except (ValueError, msgspec.ValidationError) as error:
        raise errors.ConfigError(problem=f"[{where}] {error}", mend="Mend the section.") from error


def check_change(served: contract.Driver, wanted: Any, *, where: str) -> None:
    """Raises `errors.ConfigError` when `served` cannot take these options before its next start."""
    names = (field.name for field in msgspec.structs.fields(type(wanted)))
    differ = {name for name in names if getattr(served.options, name) != getattr(wanted, name)}
    rigid = ", ".join(sorted(differ - served.changeable))
    if rigid:
        raise errors.ConfigError(
            problem=f"[{where}] {rigid} cannot change while the back end serves",
            mend="Restart the worker, or set it back.",
        )


def _value(text: str, kind: Any) -> Any:
    """What the text stands for, as msgspec needs it: commas part lists, colons pairs, words are true or false."""
    shape = msgspec.inspect.type_info(kind)
    if isinstance(shape, msgspec.inspect.Metadata):
        shape = shape.type
    text = text.strip()
    if isinstance(shape, msgspec.inspect.DictType):
        return dict(_pairs(text))
    if isinstance(shape, msgspec.inspect.CollectionType | msgspec.inspect.VarTupleType):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(shape, msgspec.inspect.BoolType):
        return _TRUTH.get(text.lower(), text)
    return text


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, colon, value = part.partition(":")
        if not colon:
            raise ValueError(f"'{part}' is not name:value")
        yield key.strip(), value.strip()


def _description(field: msgspec.structs.FieldInfo) -> str:
    shape = msgspec.inspect.type_info(field.type)
    extra = shape.extra_json_schema if isinstance(shape, msgspec.inspect.Metadata) else None
    return str((extra or {}).get("description", "See the driver's page for its options."))


def _nearest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(sorted(known))}."


def capabilities(found: contract.Driver | type[contract.Driver]) -> dict[str, Any]:
    """What a driver announces, under the names that share types and the scheduler use.

    A class says what it could; a driver adds what its back end's settings make of it.
    """
    cls = found if inspect.isclass(found) else type(found)
    announced: dict[str, Any] = {
        "vendor_name": found.vendor,
        "driver_version": found.version,
        "storage_protocol": "_".join(found.protocols),
        "ipv4_support": 4 in found.ip_versions,
        "ipv6_support": 6 in found.ip_versions,
        "driver_handles_share_servers": issubclass(cls, contract.RunsServers),
        "snapshot_support": issubclass(cls, contract.Snapshots),
        "create_share_from_snapshot_support": issubclass(cls, contract.ClonesSnapshots),
        "revert_to_snapshot_support": issubclass(cls, contract.Reverts),
        "mount_snapshot_support": issubclass(cls, contract.MountsSnapshots),
        "replication_type": getattr(found, "replication_type", None),
        "share_group_stats": {"consistent_snapshot_support": getattr(found, "consistent_snapshot_support", None)},
        "security_service_update_support": issubclass(cls, contract.UpdatesSecurityServices),
        "network_allocation_update_support": issubclass(cls, contract.UpdatesServerNetworks),
        "share_server_multiple_subnet_support": getattr(found, "share_server_multiple_subnet_support", False),
        "share_replicas_migration_support": False,
        "thin_provisioning": False,
        "mount_point_name_support": False,
        "snapshot_inherit_share_access_support": issubclass(cls, contract.MountsSnapshots),
        "encryption_support": None,
        "qos_type_support": False,
        "qos": False,
        "dedupe": False,
        "compression": False,
        "replication_domain": None,
        "filter_function": None,
        "goodness_function": None,
        "max_shares_per_share_server": -1,
        "max_share_server_size": -1,
    } | dict(found.announces)
    return announced if inspect.isclass(found) else announced | _settings(found)


def _settings(found: contract.Driver) -> dict[str, Any]:
    backend = found.backend
    without_servers = {**dict.fromkeys(_OF_SHARE_SERVERS, False), "encryption_support": None}
    return ({} if backend.driver_handles_share_servers else without_servers) | {
        "share_backend_name": backend.share_backend_name,
        "driver_handles_share_servers": backend.driver_handles_share_servers,
        "reserved_percentage": backend.reserved_percentage,
        "reserved_snapshot_percentage": backend.reserved_snapshot_percentage,
        "reserved_share_extend_percentage": backend.reserved_share_extend_percentage,
        "max_over_subscription_ratio": backend.max_over_subscription_ratio,
        "max_shares_per_share_server": backend.server_limits.shares,
        "max_share_server_size": backend.server_limits.gib,
    }
