# SPDX-License-Identifier: Apache-2.0
"""The house rules hold over this repository, and each rule is proven to bite."""

import hashlib
import inspect
from pathlib import Path

import pytest

from tests import house_imports, house_migrations, house_papers, house_rules, house_types, house_waiting

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
TOO_MANY = [f"src/abaca/long{number}.py" for number in range(house_rules.EXEMPTIONS_AT_MOST + 1)]
HASH = " --hash=sha256:00"
REVISIONS = "src/abaca/db/migrations/versions"
CHAINED = '"""B."""\n\nrevision = "0002"\ndown_revision = "0001"\n'
RELEASED = {house_migrations.RELEASED: hashlib.sha256(b"x = 1\n").hexdigest() + "  0002_a.py\n"}

# A second of sleep, under the names that it has had or might have.
SLEEPS = [
    "time.sleep(1)\n",
    "async def f():\n    await asyncio.sleep(1)\n",
    "from time import sleep as rest\nrest(1)\n",
    "rest = time.sleep\n",
    "partial(time.sleep, 1)()\n",
    "threading.Event().wait(1)\n",
    "def pause(seconds):\n    threading.Event().wait(seconds)\n",
    "assert not Event().wait(timeout=1)\n",
    "never = Event()\nnever.wait(1)\n",
    "class A:\n    def f(self):\n        self.never = multiprocessing.Event()\n        assert not self.never.wait(1)\n",
    "with threading.Condition() as c:\n    threading.Condition().wait_for(lambda: False, 1)\n",
    "threading.Timer(1, f).start()\n",
    "from threading import Timer\n",
    "thread.join(0.3)\n",
    "thread.join(timeout=0.3)\n",
    "while time.monotonic() < end: pass\n",
    "wait_until(lambda: time.time() > end)\n",
    "def is_late():\n    return time.monotonic() > end\nwait_until(is_late)\n",
    "select.select([], [], [], 1)\n",
    "select.poll().poll(1000)\n",
    "p = select.poll()\np.poll(1000)\n",
    "s = selectors.DefaultSelector()\ns.select(1)\n",
    "signal.sigtimedwait([], 1)\n",
    "subprocess.run(['sleep', '1'])\n",
    "os.system('sleep 1')\n",
]

# For each rule: a tree that breaks it, and one that comes close without breaking it.
PROOFS = {
    house_rules.modules_classes_and_functions_stay_small: (
        [
            {"src/abaca/long.py": "x = 1\n" * 501},
            {"src/abaca/long.py": "def f():\n" + "    x = 1\n" * 60},
            {"src/abaca/large.py": "class A:\n" + "    x = 1\n" * 250},
            {"src/abaca/wide.py": "def f(a, b, c, *, d, e, f, g): ...\n"},
        ],
        {
            "src/abaca/long.py": "x = 1\n" * 500,
            "src/abaca/large.py": "class A:\n" + "    x = 1\n" * 249,
            "src/abaca/wide.py": "class A:\n    def f(self, a, b, c, *, d, e, f): ...\n",
            "tests/test_fixtures.py": "def test_x(a, b, c, d, e, f, g): ...\n",
        },
    ),
    house_rules.the_exemption_list_only_shrinks: (
        [
            {"tests/golden/budget_exemptions.txt": "src/abaca/short.py\n", "src/abaca/short.py": "x = 1\n"},
            {"tests/golden/budget_exemptions.txt": "\n".join(TOO_MANY), **dict.fromkeys(TOO_MANY, "x = 1\n" * 501)},
        ],
        {"tests/golden/budget_exemptions.txt": "# Nothing is exempt.\n"},
    ),
    house_rules.modules_are_named_for_what_they_hold: (
        [{"src/abaca/utils.py": ""}, {"src/abaca/common/shares.py": ""}, {"tests/helpers.py": ""}],
        {"src/abaca/db/shares/shares.py": "", "tests/common_names.py": ""},
    ),
    house_types.any_is_named_less_and_less: (
        [
            {"src/abaca/api/a.py": "from typing import Any\ndef f(x: list[Any]) -> int: ...\n"},
            {"src/abaca/a.py": "import typing\nx: typing.Any = 1\n", "tests/golden/any_budget.txt": "api 1\na 0\n"},
            {"src/abaca/api/a.py": "x: int = 1\n", "tests/golden/any_budget.txt": "api 1\n"},
        ],
        {
            "src/abaca/api/a.py": "from typing import Any\nx: dict[str, Any]\nany([x])\n",
            "src/abaca/logs.py": "y: object\n",
            "tests/golden/any_budget.txt": "# packages\napi 1\n",
        },
    ),
    house_types.rows_stay_with_who_asks_for_their_columns: (
        [
            {"src/abaca/db/shares/a.py": "def show(tx: Tx, id: str) -> Row | None: ...\n"},
            {"src/abaca/db/shares/a.py": "def whole(tx: Tx) -> Sequence[sa.Row[int]]: ...\n"},
            {"src/abaca/db/journal/a.py": "def add(tx: Tx, *, values: Mapping[str, typing.Any]) -> str: ...\n"},
            {"src/abaca/db/shares/a.py": "def show(tx: Tx, names: tuple[str, ...]) -> Any: ...\n"},
            {"src/abaca/operations/shares/a.py": "def start(tx: Tx, share: Row) -> None: ...\n"},
            {"src/abaca/journal/a.py": "class A:\n    def _b(self) -> list[Row]: ...\n"},
        ],
        {
            "src/abaca/db/shares/a.py": "def show(tx: Tx, names: tuple[str, ...]) -> Row | None: ...\n"
            "def find(tx: Tx, **values: object) -> Share: ...\ndef _flag(row: Row) -> Any: ...\n",
            "src/abaca/db/engine/a.py": "def run(cursor: Any) -> list[Row]: ...\n",
            "src/abaca/operations/shares/a.py": "def share(db, columns: tuple[str, ...]) -> Row: ...\n"
            "def args(op: Op[Any]) -> Any: ...\n",
            "src/abaca/api/shares/a.py": "def show(call: Call) -> Row: ...\n",
        },
    ),
    house_papers.every_file_names_its_licence: (
        [{"src/abaca/a.py": "x = 1\n"}, {"lab/a.sh": "#!/bin/sh\n"}],
        {"src/abaca/a.py": LICENCE, "lab/a.sh": "#!/bin/sh\n" + LICENCE},
    ),
    house_rules.private_names_stay_in_their_module: (
        [
            {"src/abaca/a.py": "from abaca.b import _secret\n"},
            {"src/abaca/a.py": "from abaca import b\nb._secret()\n"},
        ],
        {"src/abaca/a.py": "from abaca.b import __version__, B\ndef _own(self, other): return other._x, _own\n"},
    ),
    house_rules.the_domain_is_plain_python: (
        [
            {"src/abaca/domain/a.py": "import falcon\n"},
            {"src/abaca/domain/a.py": "from abaca import db\n"},
            {"src/abaca/errors.py": "from abaca.settings import Settings\n"},
        ],
        {"src/abaca/domain/a.py": "import enum\nfrom abaca import errors\nfrom abaca.domain import shares\n"},
    ),
    house_rules.drivers_never_see_the_database: (
        [
            {"src/abaca/drivers/a.py": "from abaca.db import shares\n"},
            {"src/abaca/drivers/exports/a.py": "def f():\n    import psycopg\n"},
        ],
        {"src/abaca/drivers/a.py": "from abaca.drivers import contract\n", "src/abaca/db/a.py": "import sqlalchemy\n"},
    ),
    house_rules.every_driver_has_a_harness: (
        [
            {"src/abaca/drivers/a.py": "class A(contract.Driver): ...\n"},
            {"src/abaca/drivers/a.py": "class A(Driver): ...\n", "tests/drivers/harness.py": "H = {'b': 1}\n"},
        ],
        {
            "src/abaca/drivers/a.py": "class A(Driver): ...\n",
            "src/abaca/drivers/contract.py": "class Resizes(Driver): ...\n",
            "tests/drivers/harness.py": "H = {'a': 1}\n",
        },
    ),
    house_rules.handlers_never_read_the_version: (
        [
            {"src/abaca/api/a.py": "if call.version >= (2, 45): ...\n"},
            {"src/abaca/api/compute/a.py": "x = request.microversion\n"},
            {"src/abaca/api/a.py": "ok = v == '2.45'\n"},
        ],
        {
            "src/abaca/http/wire.py": "ok = version >= since\n",
            "src/abaca/api/versions.py": "ok = version >= MINIMUM\n",
            "src/abaca/api/a.py": "f: Annotated[str, Since('2.45')]\n",
        },
    ),
    house_imports.no_import_leads_back: (
        [
            {"src/abaca/a.py": "from abaca import b\n", "src/abaca/b.py": "from abaca.a import x\n"},
            {
                "src/abaca/a.py": "if TYPE_CHECKING:\n    from abaca.c.b import x\n",
                "src/abaca/c/b.py": "def f():\n    import abaca.d\n",
                "src/abaca/d.py": "from abaca.a import y\n",
            },
            {"src/abaca/c/__init__.py": "from abaca.c.b import x\n", "src/abaca/c/b.py": "from abaca.c import y\n"},
            {"src/abaca/c/b.py": "from . import d\n", "src/abaca/c/d.py": "from .b import x\n"},
            {"src/abaca/journal/a.py": "import abaca.b\n", "src/abaca/b.py": "import abaca.journal.a\n"},
        ],
        {
            "src/abaca/__init__.py": "",
            "src/abaca/a.py": "from abaca import b\n",
            "src/abaca/b.py": "from abaca import c, errors\nfrom abaca.c.d import x\n",
            "src/abaca/c/__init__.py": "from abaca.c.d import x\n",
            "src/abaca/c/d.py": "from abaca.c import e\n",
            "src/abaca/c/e.py": "import abaca\n",
        },
    ),
    house_imports.areas_leave_the_handlers_of_others_alone: (
        [
            {
                "src/abaca/api/a/x.py": "R = Resource('x', '/x')\n",
                "src/abaca/api/b/y.py": "from abaca.api.a import x\n",
            },
            {
                "src/abaca/api/a/x.py": "R = routing.Resource('x', '/x')\n",
                "src/abaca/api/b/y.py": "def f():\n    from abaca.api.a.x import show\n",
            },
        ],
        {
            "src/abaca/api/routes.py": "from abaca.api.a import x\n",
            "src/abaca/api/a/x.py": "from abaca.api.a import y\nR = Resource('x', '/x')\n",
            "src/abaca/api/a/y.py": "R = Resource('y', '/y')\n",
            "src/abaca/api/a/lookups.py": "def found(call): ...\n",
            "src/abaca/api/b/x.py": "from abaca.api.a.lookups import found\nR = Resource('z', '/z')\n",
        },
    ),
    house_waiting.tests_never_sleep: (
        [{"tests/a.py": text} for text in SLEEPS],
        {
            "tests/conftest.py": "time.sleep(1)\n",
            "src/abaca/a.py": "time.sleep(1)\n",
            "tests/a.py": "e = threading.Event()\nThread(target=e.set)\nassert e.wait(10)\n"
            "class Gate:\n    def __init__(self):\n        self.arrived, self.opened = Event(), Event()\n"
            "def test_x(gate):\n    gate.opened.set()\n    assert gate.arrived.wait(10)\n    process.wait(10)\n"
            "def f(gate):\n    gate.arrived.set()\n    while not gate.opened.wait(0.1): g()\n"
            "over = Event()\nstart(over)\nassert over.wait(5)\nthread.join(10)\n', '.join(words)\n"
            "p = select.poll()\np.register(0)\np.poll(100)\nselect.select([a], [], [], 1)\n"
            "since = time.monotonic()\nmachine.run(['sleep', '9'])\nretrying(sleep=delays.append)\n",
        },
    ),
    house_waiting.tests_look_whether_what_they_wait_for_came: (
        [
            {"tests/a.py": "e = threading.Event()\ne.wait(10)\n"},
            {
                "tests/a.py": "class G:\n    def f(self):\n        self.come = Event()\n",
                "tests/b.py": "g.come.wait(timeout=1)\n",
            },
        ],
        {"tests/a.py": "e = Event()\nassert e.wait(10)\ne.wait()\nwhile not e.wait(1): f()\nprocess.wait(10)\n"},
    ),
    house_waiting.tests_wait_for_nobody_while_they_write: (
        [
            {"tests/a.py": "with db.write() as tx:\n    resume(tx, bench.until('a', 'paused').id)\n"},
            {"tests/a.py": "with one() as a, b.db.write() as tx:\n    if a:\n        until_ended(a)\n"},
        ],
        {"tests/a.py": "bench.until('a')\nwith db.read() as tx:\n    bench.until('a')\nwith db.write():\n    go()\n"},
    ),
    house_waiting.tests_freeze_others_by_the_lab: (
        [
            {"tests/a.py": "os.kill(pid, signal.SIGSTOP)\n"},
            {"tests/a.py": "child.send_signal(SIGSTOP)\n"},
        ],
        {
            "lab/a.py": "os.kill(pid, signal.SIGSTOP)\n",
            "tests/a.py": "os.kill(os.getpid(), signal.SIGSTOP)\nos.kill(pid, signal.SIGKILL)\nprocesses.freeze(pid)\n",
        },
    ),
    house_rules.tests_never_replace_our_code: (
        [
            {"tests/a.py": "from unittest import mock\n"},
            {"tests/a.py": "def test_x(monkeypatch):\n    monkeypatch.setattr(a, 'b', 1)\n"},
        ],
        {"tests/a.py": "def test_x(monkeypatch):\n    monkeypatch.setenv('A', 'b')\n"},
    ),
    house_migrations.released_revisions_never_change: (
        [
            {f"{REVISIONS}/0001_a.py": "x = 1\n"},
            {f"{REVISIONS}/0002_a.py": "x = 2\n", **RELEASED},
            {f"{REVISIONS}/0001_a.py": "x = 1\n", f"{REVISIONS}/0002_a.py": "x = 1\n", **RELEASED},
            RELEASED,
        ],
        {f"{REVISIONS}/0002_a.py": "x = 1\n", f"{REVISIONS}/0003_b.py": "x = 2\n", **RELEASED},
    ),
    house_migrations.revisions_stand_alone: (
        [
            {f"{REVISIONS}/0002_a.py": "from abaca.db import tables\n"},
            {f"{REVISIONS}/0002_a.py": "def upgrade():\n    import abaca\n"},
            {f"{REVISIONS}/0002_a.py": "import msgspec\n"},
        ],
        {
            f"{REVISIONS}/0002_a.py": "import json\nimport sqlalchemy as sa\nfrom alembic import op\n",
            "src/abaca/db/migrations/env.py": "from abaca.db import tables\n",
        },
    ),
    house_migrations.revisions_are_one_chain: (
        [
            {f"{REVISIONS}/0001_a.py": '"""A."""\n\nrevision = "0001"\n', f"{REVISIONS}/0001_b.py": CHAINED},
            {f"{REVISIONS}/0001_a.py": '"""A."""\n\nrevision = "0001"\n', f"{REVISIONS}/0003_b.py": CHAINED},
            {
                f"{REVISIONS}/0001_a.py": '"""A."""\n\nrevision = "0001"\n',
                f"{REVISIONS}/0002_b.py": CHAINED.replace("0001", "0000"),
            },
            {
                f"{REVISIONS}/0001_a.py": '"""A."""\n\nrevision = "0001"\n',
                f"{REVISIONS}/0002_b.py": CHAINED,
                "src/abaca/db/migrations/__init__.py": '"""A."""\n\nHEAD = "0001"\n',
            },
        ],
        {
            f"{REVISIONS}/0001_a.py": '"""A."""\n\nrevision = "0001"\n',
            f"{REVISIONS}/0002_b.py": CHAINED,
            "src/abaca/db/migrations/__init__.py": '"""A."""\n\nHEAD = "0002"\n',
        },
    ),
    house_papers.the_lock_names_no_address: (
        [
            {"requirements/a.txt": f"a @ https://example.org/a.whl{HASH}\n"},
            {"requirements/a.txt": f"--index-url x\na==1 \\\n   {HASH}\n"},
            {"requirements/a.txt": "a==1\n"},
            {"requirements/a.txt": f"a>=1{HASH}\n"},
            {"uv.lock": ""},
        ],
        {
            "requirements/a.txt": f"# Made.\na==1 ; os == 'x' \\\n   {HASH} \\\n   {HASH}\n    # via b\n",
            "requirements/b.txt": f"b[c]==2 \\\n   {HASH}\n",
        },
    ),
    house_papers.what_is_imported_is_declared: (
        [
            {"src/abaca/a.py": "import yaml\n", "pyproject.toml": "[project]\ndependencies = ['falcon>=4']\n"},
            {"src/abaca/a.py": "def f():\n    from oslo_policy import policy\n"},
            {"src/abaca/a.py": "import yaml\n", "pyproject.toml": "[dependency-groups]\ntest = ['pyyaml']\n"},
        ],
        {
            "src/abaca/a.py": "import yaml\nimport abaca.db\nfrom oslo_policy import policy\n",
            "pyproject.toml": "[project]\ndependencies=['PyYAML>=6']\noptional-dependencies={x=['oslo.policy[a]>4']}\n",
        },
    ),
    house_papers.the_lock_holds_what_is_declared: (
        [
            {"pyproject.toml": "[project]\ndependencies = ['falcon>=4']\n"},
            {"pyproject.toml": "[dependency-groups]\ntest = ['pytest']\n", "requirements/dev.txt": "pytest_x==1\n"},
        ],
        {
            "pyproject.toml": "[project]\ndependencies = ['oslo.log']\n[dependency-groups]\nkeystone = ['keystone']\n",
            "requirements/run.txt": "oslo-log==1 \\\n",
            "requirements/dev.txt": "oslo-log==1 \\\n",
        },
    ),
    house_papers.every_command_is_documented: (
        [
            {"Makefile": "a:\n\ttrue\n"},
            {"Makefile": "a: b ## Make a\nb:\n"},
            {"Makefile": "a: ## Make a\n", "README.md": "Try `make b`.\n"},
            {"Makefile": "a: ## Make a\n", "README.md": "```\n$ make b\n```\n"},
        ],
        {"Makefile": "X := 1\nx:=1\n.PHONY: a\na: ## Make a\n", "README.md": "`make a` and `make` make things\n"},
    ),
    house_papers.the_documents_link_to_what_exists: (
        [{"README.md": "[a](docs/a.md)\n"}],
        {"README.md": "[a](docs/a.md#b) [x](https://example.org)\n", "docs/a.md": "[up](../README.md)\n"},
    ),
    house_papers.the_repository_names_no_machine: (
        [{"docs/a.md": "see /" + "work/main\n"}, {"lab/a.sh": "curl https://" + "pypi" + ".org\n"}],
        {"docs/a.md": "the network/" + "work/x is fine\n"},
    ),
}


def planted(root, tree):
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def named(rule):
    return rule.__name__


@pytest.mark.parametrize("rule", house_rules.RULES, ids=named)
def test_the_rule_holds_here(rule):
    if breaches := rule(ROOT):
        pytest.fail("\n".join([inspect.getdoc(rule) or "", "", *breaches]), pytrace=False)


@pytest.mark.parametrize("rule", house_rules.RULES, ids=named)
def test_the_rule_finds_every_planted_breach(rule, tmp_path):
    breaking, _ = PROOFS[rule]
    missed = [tree for number, tree in enumerate(breaking) if not rule(planted(tmp_path / str(number), tree))]
    assert missed == []


@pytest.mark.parametrize("rule", house_rules.RULES, ids=named)
def test_the_rule_lets_pass_what_is_allowed(rule, tmp_path):
    _, allowed = PROOFS[rule]
    assert rule(planted(tmp_path, allowed)) == []


@pytest.mark.parametrize("rule", house_rules.RULES, ids=named)
def test_the_rule_holds_in_an_empty_house(rule, tmp_path):
    assert rule(tmp_path) == []


@pytest.mark.parametrize("rule", house_rules.RULES, ids=named)
def test_the_rule_says_how_to_mend_a_breach(rule):
    assert "Mend: " in (rule.__doc__ or "")
