# SPDX-License-Identifier: Apache-2.0
"""What clients of a door know and is not served there: whoever asks for it reads so, instead of `not found`.

The answer is a 404 all the same: clients take that for a service without the feature, and 501 for one that is broken.
A line goes when its collection or action is served; tests/api/test_unserved.py says which.
"""

from __future__ import annotations

# By the first part of the path: what is missing.
SHARED_FILE_SYSTEMS = {
    "share-groups": "Share groups",
    "share-group-snapshots": "Share group snapshots",
    "share-replicas": "Share replicas",
    "share-backups": "Share backups",
    "qos-types": "Types of quality of service",
}
# By what stands last in the path of a share.
OF_SHARES = {
    "migration-progress": "Migrating shares",
}
# By the name of the action, of shares and of instances.
ACTIONS = {
    "migration_start": "Migrating shares",
    "migration_complete": "Migrating shares",
    "migration_cancel": "Migrating shares",
    "migration_get_progress": "Migrating shares",
}
COMPUTE = {
    "extensions": "Extensions",
    "images": "Images",
    "limits": "Limits",
    "os-aggregates": "Aggregates",
    "os-floating-ips": "Floating addresses",
    "os-hypervisors": "Hypervisors",
    "os-keypairs": "Key pairs",
    "os-migrations": "Migrations",
    "os-networks": "Networks",
    "os-quota-sets": "Quotas",
    "os-security-groups": "Security groups",
    "os-server-groups": "Server groups",
    "os-services": "Services",
    "os-simple-tenant-usage": "Usage",
    "os-volumes": "Volumes",
}
DATA_PROCESSING = {
    "data-sources": "Data sources",
    "job-binaries": "Job binaries",
    "job-binary-internals": "Job binaries",
    "job-executions": "Jobs",
    "job-templates": "Job templates",
    "job-types": "Job types",
    "jobs": "Jobs",
}


def of_shared_file_systems(path: str) -> str | None:
    """The sentence for a path of shared file systems, None where nothing is missing but what nobody knows."""
    parts = path.split("/")[1:]
    what = SHARED_FILE_SYSTEMS.get(parts[0])
    if parts[0] == "shares":
        what = OF_SHARES.get(parts[-1])
    return None if what is None else here(what)


def of_compute(path: str) -> str | None:
    """The same of compute."""
    what = COMPUTE.get(path.split("/")[1])
    if what is None:
        return None
    verb = "is" if what == "Usage" else "are"
    return f"{what} {verb} not served here: this door is for servers and their shares, and needs no more of Nova."


def of_data_processing(path: str) -> str | None:
    """The same of data processing."""
    first, *more = path.split("/")[1:]
    if first == "images" and more:
        return (
            "Images are neither registered nor tagged here: no server is made of one. Where a client wants an image "
            "there is one for all, as-it-is."
        )
    what = DATA_PROCESSING.get(first)
    if what is None:
        return None
    return f"{what} are not served here: this door is for clusters and templates of them, and runs no jobs."


def here(what: str) -> str:
    """The sentence about something of shared file systems."""
    verb = "is" if what.split(" ", maxsplit=1)[0].endswith("ing") else "are"
    return f"{what} {verb} not served here yet; docs/reference/compatibility.md says what is."
