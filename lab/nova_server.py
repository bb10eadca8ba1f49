# SPDX-License-Identifier: Apache-2.0
"""Serve Nova's API on a loopback port; run by `lab.nova` with the Python of the OpenStack services' environment.

`nova_server.py CONFIG HOST PORT`

The tables and cells are made by Nova's own commands, the application is Nova's own. There is no scheduler, no conductor
and no hypervisor: what those would have left in the database is put there through Nova's objects, on a request below
/lab. Some answers come from here that other services give: Neutron's, that this cloud's ports are in no security group,
Placement's, that its hosts can hand in shares, and a compute host's, to the API's call for a console. What the API has
a compute host do with shares is done by the code that does it there, as far as it concerns the share service.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"  # threads, for the server and its commands alike

from nova import monkey_patch

monkey_patch.patch()  # before anything else, as Nova wants it

import oslo_messaging  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova import objects, rpc  # noqa: E402
from nova.api.openstack import wsgi_app  # noqa: E402
from nova.cmd import manage  # noqa: E402
from nova.compute import rpcapi, share_management  # noqa: E402
from nova.db.main import api as database  # noqa: E402
from nova.network import model  # noqa: E402
from nova.objects import base  # noqa: E402
from nova.share import manila  # noqa: E402
from werkzeug import serving, wrappers  # noqa: E402

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

API = "osapi_compute"
CELL = "cell1"
TIMES = ("created_at", "updated_at", "launched_at", "terminated_at", "deleted_at")
# What Nova itself writes for a server about which nothing else was said.
USUAL = {
    "user_id": "somebody",
    "vm_state": "active",
    "power_state": 1,
    "task_state": None,
    "progress": 0,
    "launch_index": 0,
    "config_drive": "",
    "image_ref": "",
    "kernel_id": "",
    "ramdisk_id": "",
    "key_name": None,
    "user_data": None,
    "locked": False,
    "auto_disk_config": False,
    "root_device_name": "/dev/vda",
    "reservation_id": "r-11111111",
    "system_metadata": {},
    "metadata": {},
}
FLAVOR = {
    "id": 1,
    "flavorid": "42",
    "name": "m1.nano",
    "memory_mb": 192,
    "vcpus": 1,
    "root_gb": 1,
    "ephemeral_gb": 0,
    "swap": 0,
    "rxtx_factor": 1.0,
    "vcpu_weight": 0,
    "disabled": False,
    "is_public": True,
    "extra_specs": {},
    "projects": [],
    "description": None,
    "created_at": None,
    "updated_at": None,
    "deleted_at": None,
    "deleted": False,
}


NODE = {
    "vcpus": 8,
    "memory_mb": 8192,
    "local_gb": 100,
    "vcpus_used": 0,
    "memory_mb_used": 0,
    "local_gb_used": 0,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7000000,
    "cpu_info": "",
}
TRAITS = ["COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_MEM_BACKING_FILE"]


class Handler(serving.WSGIRequestHandler):
    """Keeps connections open and logs none of them."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *_details: object) -> None:
        return


class Hosts:
    """The compute hosts that servers were planted on, and what is on their consoles."""

    target = oslo_messaging.Target(version="6.5")

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._shares = share_management.ShareManager(manila.API(), compute_driver=None)
        self.consoles: dict[str, str] = {}

    def allow_share(self, context: Any, instance: objects.Instance, share_mapping: objects.ShareMapping) -> None:
        """Let the host in to a share."""
        self._shares.allow_share(context, instance, share_mapping)

    def deny_share(self, context: Any, instance: objects.Instance, share_mapping: objects.ShareMapping) -> None:
        """Do so no more."""
        self._shares.deny_share(context, instance, share_mapping)

    def get_console_output(self, _context: object, instance: objects.Instance, tail_length: object) -> str:
        """The last lines of a console."""
        lines = self.consoles.get(instance.uuid, "").split("\n")
        return "\n".join(lines[-int(tail_length) :] if tail_length else lines)

    def need(self, contexts: tuple, host: str, zone: str | None) -> None:
        """A host that is up, in a zone, and answers the API."""
        context, targeted, _cell = contexts
        with self._lock:
            if host in self._known:
                return
            self._known.add(host)
            seen = datetime.datetime.now(datetime.UTC)
            values = {"binary": "nova-compute", "topic": "compute", "report_count": 1, "last_seen_up": seen}
            service = objects.Service(targeted, host=host, **values)
            service.create()
            node = {"uuid": str(uuid.uuid4()), "service_id": service.id, "hypervisor_hostname": f"{host}.example"}
            objects.ComputeNode(targeted, host=host, **NODE, **node).create()
            if zone is not None:
                group = objects.Aggregate(context, name=f"of-{host}", metadata={"availability_zone": zone})
                group.create()
                group.add_host(host)
            target = oslo_messaging.Target(topic=rpcapi.RPC_TOPIC, server=host)
            rpc.get_server(target, [self], base.NovaObjectSerializer()).start()


HOSTS = Hosts()


def make_tables() -> None:
    """The tables and the two cells of an ordinary Nova."""
    manage.ApiDbCommands().sync()
    cells = manage.CellV2Commands()
    cells.map_cell0()
    manage.DbCommands().sync()
    cells.create_cell(name=CELL, transport_url="fake://")


@contextlib.contextmanager
def in_cell() -> Iterator[tuple[Any, Any, Any]]:
    """Nova's contexts for what is common, and for what is in the cell that has servers; and that cell."""
    context = nova_context.get_admin_context()
    cell = next(one for one in objects.CellMappingList.get_all(context) if one.name == CELL)
    with nova_context.target_cell(context, cell) as targeted:
        yield context, targeted, cell


def plant(said: dict) -> dict:
    """Put a server where the API finds it. Fields are those of Nova's instances, and some of what hangs on them."""
    flavor, addresses, zone = said.pop("flavor", {}), said.pop("addresses", []), said.get("availability_zone")
    shares, tags, fault = said.pop("shares", []), said.pop("tags", []), said.pop("fault", None)
    volumes, console, deleted = said.pop("volumes", []), said.pop("console", None), said.pop("deleted", False)
    values = {**USUAL, "hostname": said["display_name"], **said}
    values |= {name: moment(values[name]) for name in TIMES if values.get(name)}
    owner = {name: values[name] for name in ("project_id", "user_id")}
    with in_cell() as (context, targeted, cell):
        if values.get("host"):
            HOSTS.need((context, targeted, cell), values["host"], zone)
            values |= {"node": f"{values['host']}.example", "compute_id": 1}
        instance = objects.Instance(context=targeted, **values)
        instance.flavor = objects.Flavor(**{**FLAVOR, **flavor})
        instance.info_cache = objects.InstanceInfoCache(context=targeted, network_info=network_info(addresses))
        mapping = {"instance_uuid": instance.uuid, "cell_mapping": cell, "queued_for_delete": False, **owner}
        objects.InstanceMapping(context, **mapping).create()
        instance.create()
        image = objects.ImageMeta(id=instance.image_ref) if instance.image_ref else None
        wish = {"flavor": instance.flavor, "availability_zone": zone, "scheduler_hints": {}, "image": image}
        objects.RequestSpec(context, instance_uuid=instance.uuid, num_instances=1, **wish, **owner).create()
        HOSTS.consoles[instance.uuid] = console or ""
        of_it = {"instance_uuid": instance.uuid}
        for tag in tags:
            objects.Tag(targeted, resource_id=instance.uuid, tag=tag).create()
        for share in shares:
            objects.ShareMapping(targeted, **of_it, **share).create()
        for volume in volumes:
            kind = {"source_type": "volume", "destination_type": "volume", "device_name": "/dev/vdb"}
            objects.BlockDeviceMapping(targeted, **of_it, **kind, **volume).create()
        if fault is not None:
            database.instance_fault_create(targeted, {**of_it, **fault, "created_at": values["created_at"]})
        if deleted:
            instance.destroy()
    return {"id": instance.uuid}


def moment(text: str) -> datetime.datetime:
    """A time in UTC."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def network_info(addresses: list) -> model.NetworkInfo:
    """A port for each network and MAC; a floating address hangs on the fixed one before it."""
    ports: dict[tuple[str, str], model.VIF] = {}
    for number, one in enumerate(addresses):
        at = (one["network"], one["mac"])
        if at not in ports:
            network = model.Network(id=f"{number:08x}-0000-4000-8000-000000000000", label=one["network"], subnets=[])
            ports[at] = model.VIF(id=network["id"], address=one["mac"], network=network)
        subnets = ports[at]["network"]["subnets"]
        if one.get("kind") == "floating":
            subnets[-1]["ips"][-1].add_floating_ip(model.IP(one["ip"], "floating"))
        else:
            subnets.append(model.Subnet(ips=[model.FixedIP(address=one["ip"])], gateway=model.IP()))
    return model.NetworkInfo(list(ports.values()))


def remove(server_id: str) -> dict:
    """What deleting leaves: rows that say so."""
    with in_cell() as (context, targeted, _cell):
        objects.Instance.get_by_uuid(targeted, server_id).destroy()
        mapping = objects.InstanceMapping.get_by_instance_uuid(context, server_id)
        mapping.queued_for_delete = True
        mapping.save()
    return {}


def reach(*, cell: bool) -> dict:
    """Whether the API reaches the database of the cell."""
    context = nova_context.get_admin_context()
    mapping = next(one for one in objects.CellMappingList.get_all(context) if one.name == CELL)
    there = wsgi_app.CONF.database.connection
    mapping.database_connection = there if cell else there.replace("sqlite:///", "sqlite:////nowhere")
    mapping.save()
    nova_context.CELL_CACHE.clear()
    nova_context.CELLS = []
    return {}


def ask_shares(call: str, arguments: list, user: list | None) -> Any:
    """One call of Nova's client of share services, for nobody in particular or with a user's token."""
    token, project_id = user or (None, None)
    context = nova_context.RequestContext(user_id="somebody", project_id=project_id, auth_token=token)
    said = getattr(manila.API(), call)(context, *arguments)
    shown = [dataclasses.asdict(one) if dataclasses.is_dataclass(one) else one for one in listed(said)]
    return shown if isinstance(said, list) else shown[0]


def listed(said: Any) -> list:
    """What is said, in a list where it is none."""
    return said if isinstance(said, list) else [said]


def beside(path: str, request: wrappers.Request) -> Any:
    """What the lab answers itself."""
    if path.startswith("/lab/network/"):
        return {path.rpartition("/")[2]: []}
    if path.startswith("/lab/placement/"):
        return {"traits": TRAITS, "resource_provider_generation": 1}
    if path == "/lab/manila":
        return ask_shares(**request.get_json())
    if path == "/lab/cell":
        return reach(cell=request.get_json())
    if request.method == "DELETE":
        return remove(path.rpartition("/")[2])
    return plant(request.get_json())


def application(nova: Application) -> Application:
    """Nova's application, and what the lab needs beside it."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not path.startswith("/lab/"):
            return nova(environ, start_response)
        try:
            status, said = 200, beside(path, wrappers.Request(environ))
        except Exception:  # noqa: BLE001 (whatever it is, the test that asked shall see it)
            status, said = 500, traceback.format_exc()
        response = wrappers.Response(json.dumps(said), status, content_type="application/json")
        return response(environ, start_response)

    return answer


def main() -> None:
    configuration, host, port = sys.argv[1:]
    sys.argv[1:] = []  # Nova would read them as its own
    paste = pathlib.Path(sys.prefix) / "etc" / "nova" / "api-paste.ini"
    os.environ["OS_NOVA_CONFIG_FILES"] = f"{paste};{configuration}"
    wsgi_app.init_global_data([str(paste), configuration], API, "nova-api-os-compute")
    make_tables()
    nova = wsgi_app.init_application(API, "nova-api-os-compute")
    serving.make_server(host, int(port), application(nova), threaded=True, request_handler=Handler).serve_forever()


if __name__ == "__main__":
    main()
