# SPDX-License-Identifier: Apache-2.0
"""A small cloud, and what it is asked: by clients, and by the plug-in for a Nova.

`SERVERS` are planted in a real Nova (lab/nova.py); its answers to `QUESTIONS` and to what the plug-in asks stand in
tests/golden/nova.jsonl.
"""

from abaca.compute.contract import Wanted
from tests.api.world import OTHER_PROJECT, PROJECT

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdgB5Zl5wz2t8RNyLa1mcwanzvGeFfaxk9dYnIlFR2z"
OLD_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER_KEY = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBKNxhEY6HF6TzAzvf58nxuhuon6OmsC7Zx0WslXV"
    "3pVWWCk/heAPwYwUCB7qulc2cLGsCtESSbnSOcpRBVir5So="
)
WEB, STORE, BROKEN, BUSY, BUILDING, LOCKED, ELSEWHERE, GONE = (
    f"{n:08d}-0000-4000-8000-000000000000" for n in range(1, 9)
)
NOBODY = "99999999-0000-4000-8000-000000000000"
DATA, HOME, NO_SHARE = (f"{n:08d}-5555-4000-8000-000000000000" for n in range(1, 4))
USER, STRANGER = "d4" * 16, "e5" * 16


def _block(*keys):
    return "\r\n".join(("-----BEGIN SSH HOST KEY KEYS-----", *keys, "-----END SSH HOST KEY KEYS-----"))


def _server(uuid, name, day, **more):
    said = {"uuid": uuid, "display_name": name, "project_id": PROJECT, "user_id": USER}
    times = {"created_at": f"2026-03-0{day}T10:00:00", "updated_at": f"2026-03-0{day}T11:30:00"}
    return {**said, **times, "launched_at": f"2026-03-0{day}T10:00:09", **more}


def _at(network, ip, mac, kind="fixed"):
    return {"network": network, "ip": ip, "mac": f"fa:16:3e:00:00:{mac:02d}", "kind": kind}


SERVERS = (
    _server(
        WEB,
        "web-1",
        1,
        host="cmp-3",
        availability_zone="az-2",
        display_description="ledger",
        image_ref="5b1dac5e-0000-4000-8000-000000000000",
        key_name="mine",
        metadata={"abaca_host_key": KEY, "abaca_ssh_user": "debian"},
        addresses=[
            _at("private", "192.168.7.5", 1),
            _at("private", "203.0.113.9", 1, "floating"),
            _at("private", "2001:db8:7::5", 1),
            _at("storage", "10.0.0.5", 2),
        ],
        flavor={
            "flavorid": "7",
            "name": "m1.small",
            "memory_mb": 2048,
            "vcpus": 2,
            "root_gb": 20,
            "ephemeral_gb": 1,
            "swap": 512,
            "extra_specs": {"hw:mem_page_size": "large"},
        },
    ),
    _server(
        STORE,
        "store",
        2,
        vm_state="stopped",
        power_state=4,
        host="cmp-4",
        addresses=[_at("private", "192.168.7.6", 3)],
        console="boot\n" + _block(OLD_KEY) + "\nboot\n" + _block(OTHER_KEY, f"{KEY} root@store") + "\nlogin:",
        shares=[
            {
                "uuid": "00000001-7777-4000-8000-000000000000",
                "share_id": DATA,
                "status": "inactive",
                "tag": "data",
                "export_location": "10.0.0.10:/data",
                "share_proto": "NFS",
            },
            {
                "uuid": "00000002-7777-4000-8000-000000000000",
                "share_id": HOME,
                "status": "attaching",
                "tag": HOME,
                "export_location": "10.0.0.10:/home",
                "share_proto": "NFS",
            },
        ],
    ),
    _server(
        BROKEN,
        "broken",
        3,
        vm_state="error",
        power_state=0,
        launched_at=None,
        fault={"code": 500, "message": "No valid host was found.", "details": "Nobody has room.", "host": "lab"},
    ),
    _server(
        BUSY,
        "web-2",
        4,
        task_state="rebooting",
        host="cmp-4",
        addresses=[_at("private", "2001:db8:7::7", 4), _at("private", "192.168.7.7", 4)],
        metadata={"abaca_ssh_user": "-oProxyCommand=x"},
    ),
    _server(BUILDING, "new", 5, vm_state="building", power_state=0, task_state="spawning", launched_at=None),
    _server(
        LOCKED,
        "locked",
        6,
        vm_state="paused",
        power_state=3,
        host="cmp-4",
        locked=True,
        locked_by="owner",
        system_metadata={"locked_reason": "books are being closed"},
        access_ip_v4="198.51.100.1",
        access_ip_v6="2001:db8:9::1",
        config_drive="True",
        user_data="c2VjcmV0",
        auto_disk_config=True,
        addresses=[_at("private", "192.168.7.8", 5)],
        tags=["blue", "old"],
        volumes=[{"volume_id": "00000001-9999-4000-8000-000000000000", "delete_on_termination": True}],
    ),
    _server(
        ELSEWHERE,
        "web-3",
        7,
        project_id=OTHER_PROJECT,
        user_id=STRANGER,
        host="cmp-3",
        availability_zone="az-2",
        addresses=[_at("private", "192.168.7.9", 6)],
    ),
    _server(GONE, "gone", 8, terminated_at="2026-03-08T12:00:00", deleted=True),
)

VERSIONS = ("2.1", "2.37", "2.73", "2.97")
_AT_ALL = (
    ("member", "/servers"),
    ("member", "/servers/detail"),
    ("member", f"/servers/{WEB}"),
    ("member", f"/servers/{BROKEN}"),
    ("admin", f"/servers/{WEB}"),
    ("admin", f"/servers/{LOCKED}"),
    ("admin", f"/servers/{BUSY}"),
    ("member", f"/servers/{NOBODY}"),
    ("member", "/servers?limit=2&sort_key=status"),
    ("member", "/servers?status=NONSENSE"),
    ("member", "/servers?nonsense=1"),
)
_LISTS = (
    *(("admin", query) for query in ("all_tenants=1", "all_tenants=0", "all_tenants=nonsense", "status=DELETED")),
    ("admin", f"all_tenants=1&project_id={OTHER_PROJECT}"),
    ("admin", f"all_tenants=1&tenant_id={OTHER_PROJECT}"),
    ("admin", f"project_id={OTHER_PROJECT}"),
    ("admin", "deleted=1"),
    ("admin", "host=cmp-3"),
    ("admin", "uuid=" + WEB),
    ("admin", "vm_state=active"),
    ("admin", "task_state=rebooting"),
    ("admin", "power_state=4"),
    ("admin", "hostname=web-1"),
    ("admin", "description=ledger"),
    ("admin", "reservation_id=nonsense"),
    ("admin", f"all_tenants=1&user_id={STRANGER}"),
    *(
        ("member", query)
        for query in (
            "all_tenants=1",
            "all_tenants=0",
            "status=DELETED",
            "deleted=1",
            "name=web",
            "name=^b.*n$",
            "name=(",
            "name=web&name=store",
            "status=ACTIVE",
            "status=active&status=shutoff",
            "status=REBOOT",
            "status=BUILD",
            "status=ERROR",
            "uuid=" + WEB,
            "ip=192.168.7.5",
            "ip=192.168.7",
            "ip=10.0.0",
            "ip=203.0.113.9",
            "ip6=2001:db8:7::5",
            "ip6=2001",
            "flavor=7",
            "flavor=nonsense",
            "image=5b1dac5e-0000-4000-8000-000000000000",
            "key_name=mine",
            "availability_zone=az-2",
            "host=cmp-3",
            "user_id=" + STRANGER,
            f"project_id={OTHER_PROJECT}",
            "changes-since=2026-03-04T11:30:00Z",
            "changes-since=nonsense",
            "changes-before=2026-03-02T11:30:00Z",
            "limit=2",
            f"limit=2&marker={BUSY}",
            f"limit=2&marker={STORE}",
            "limit=3&status=ACTIVE&name=web",
            "limit=0",
            "limit=-1",
            "limit=x",
            f"marker={NOBODY}",
            "marker=nonsense",
            f"marker={ELSEWHERE}",
            "sort_key=display_name&sort_dir=asc",
            "sort_key=display_name",
            "sort_key=vm_state&sort_key=display_name&sort_dir=asc&sort_dir=desc",
            "sort_key=nonsense",
            "sort_key=host",
            "sort_dir=up",
            "tags=blue",
            "tags=blue,old",
            "tags-any=blue,red",
            "not-tags=blue,red",
            "not-tags-any=blue,red",
            "locked=true",
            "locked=false",
            "vm_state=active",
            "task_state=rebooting",
            "power_state=4",
            "config_drive=True",
            "hostname=web-1",
            "description=ledger",
        )
    ),
)
_SHARES = f"/servers/{STORE}/shares"
_CALLS = (
    *(("none", "GET", path, None, None) for path in ("/", "/v2.1", "/v2.1/")),
    ("none", "GET", "/v2.1/servers", "2.1", None),
    ("wrong", "GET", "/v2.1/servers", "2.1", None),
    *(("member", "GET", "/v2.1/servers", version, None) for version in ("2.999", "3.0", "nonsense", "2.01", "1.0")),
    *(("member", "GET", path, "2.1", None) for path in ("/v2.1/nothing", f"/v2.1/servers/{WEB}/nothing")),
    ("member", "GET", f"/v2.1/{PROJECT}/servers", "2.1", None),
    ("member", "GET", f"/v2.1/{OTHER_PROJECT}/servers", "2.1", None),
    ("member", "GET", f"/v2.1/servers/{ELSEWHERE}", "2.97", None),
    ("member", "GET", f"/v2.1/servers/{GONE}", "2.97", None),
    ("member", "GET", "/v2.1/servers/nonsense", "2.97", None),
    ("reader", "GET", f"/v2.1/servers/{WEB}", "2.97", None),
    ("member", "GET", "/v2.1/servers?changes-before=2026-03-02T11:30:00Z", "2.66", None),
    (
        "member",
        "GET",
        "/v2.1/servers?changes-since=2026-03-04T11:30:00Z&changes-before=2026-03-01T11:30:00Z",
        "2.66",
        None,
    ),
    ("member", "GET", f"/v2.1{_SHARES}", "2.96", None),
    ("member", "GET", f"/v2.1{_SHARES}", "2.97", None),
    ("reader", "GET", f"/v2.1{_SHARES}", "2.97", None),
    ("other", "GET", f"/v2.1{_SHARES}", "2.97", None),
    ("admin", "GET", f"/v2.1{_SHARES}", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}?limit=1", "2.97", None),
    ("member", "GET", f"/v2.1/servers/{WEB}/shares", "2.97", None),
    ("member", "GET", f"/v2.1/servers/{NOBODY}/shares", "2.97", None),
    ("member", "GET", f"/v2.1/servers/{GONE}/shares", "2.97", None),
    ("member", "GET", "/v2.1/servers/nonsense/shares", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}/{DATA}", "2.97", None),
    ("admin", "GET", f"/v2.1{_SHARES}/{DATA}", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}/{HOME}", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}/{NO_SHARE}", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}/nonsense", "2.97", None),
    ("member", "GET", f"/v2.1{_SHARES}/{DATA}?x=1", "2.97", None),
    *(
        ("member", "POST", f"/v2.1{_SHARES}", "2.97", body)
        for body in (
            {},
            {"share": {}},
            {"share": {"share_id": "nonsense"}},
            {"share": {"share_id": 7}},
            {"share": {"share_id": NO_SHARE, "tag": ""}},
            {"share": {"share_id": NO_SHARE, "tag": "a b"}},
            {"share": {"share_id": NO_SHARE, "tag": "x" * 256}},
            {"share": {"share_id": NO_SHARE, "tag": None}},
            {"share": {"share_id": NO_SHARE, "more": 1}},
            {"share": {"share_id": NO_SHARE}, "more": 1},
        )
    ),
    ("member", "POST", f"/v2.1{_SHARES}", "2.96", {"share": {"share_id": DATA}}),
    ("reader", "POST", f"/v2.1{_SHARES}", "2.97", {"share": {"share_id": DATA}}),
    ("other", "POST", f"/v2.1{_SHARES}", "2.97", {"share": {"share_id": DATA}}),
    ("member", "POST", f"/v2.1/servers/{WEB}/shares", "2.97", {"share": {"share_id": DATA}}),
    ("member", "POST", f"/v2.1/servers/{NOBODY}/shares", "2.97", {"share": {"share_id": DATA}}),
    ("member", "DELETE", f"/v2.1/servers/{WEB}/shares/{DATA}", "2.97", None),
    ("member", "DELETE", f"/v2.1/servers/{NOBODY}/shares/{DATA}", "2.97", None),
    ("member", "DELETE", f"/v2.1{_SHARES}/{NO_SHARE}", "2.97", None),
    ("reader", "DELETE", f"/v2.1{_SHARES}/{DATA}", "2.97", None),
    ("other", "DELETE", f"/v2.1{_SHARES}/{DATA}", "2.97", None),
    ("member", "PUT", f"/v2.1{_SHARES}/{DATA}", "2.97", {"share": {}}),
)
# who asks, method, path, microversion, body
QUESTIONS = (
    *((who, "GET", f"/v2.1{path}", version, None) for version in VERSIONS for who, path in _AT_ALL),
    *((who, "GET", f"/v2.1/servers?{query}", "2.97", None) for who, query in _LISTS),
    *_CALLS,
)

# What the tests of the plug-in have it ask, beyond what the compute door makes of the questions.
PLUGIN_CALLS = (
    *(("show", server) for server in (WEB, STORE, BROKEN, BUSY, BUILDING, LOCKED, ELSEWHERE, GONE, NOBODY)),
    *(("login", server) for server in (WEB, STORE, LOCKED)),
    *(
        ("list", wanted)
        for wanted in (
            Wanted(),
            Wanted(project_id=PROJECT, statuses=("ACTIVE",), name="^web", ip="192.168.7.5"),
            Wanted(statuses=("SHUTOFF", "ERROR")),
            Wanted(limit=3, sort_key="name", descending=False),
            Wanted(limit=3, sort_key="name", descending=False, marker=BUILDING),
            Wanted(limit=3, sort_key="name", descending=False, marker=ELSEWHERE),
            Wanted(marker=NOBODY),
        )
    ),
)
