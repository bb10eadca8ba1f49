# SPDX-License-Identifier: Apache-2.0
"""The private and undocumented parts of libraries that are used, by name: each is there, and its library is bounded.

When a library is raised beyond its bound in pyproject.toml, this says what it has lost before a user's request does.
"""

import ast
import inspect
import re
import tomllib
import warnings
from importlib import metadata
from pathlib import Path

import pytest
import sqlalchemy as sa
from granian import _granian
from granian.http import HTTP1Settings
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _exceptions
from oslo_config import iniparser
from prometheus_client import values
from sqlalchemy.sql.compiler import ExpandedState, SQLCompiler

from tests.house_rules import python

ROOT = Path(__file__).resolve().parent.parent
T = sa.table("t", sa.column("a"), sa.column("b"))
LISTED = sa.select(T.c.a).where(T.c.b.in_(sa.bindparam("bs", expanding=True)), T.c.a == sa.bindparam("a"))
COMPILED = LISTED.compile(dialect=sa.create_engine("sqlite://").dialect)
CONFIG = {"www_authenticate_uri": "http://127.0.0.1:9", "auth_url": "http://127.0.0.1:9", "auth_type": "password"}


def transport():
    """It imports eventlet, which warns of itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from oslo_messaging import transport
    return transport.Transport


def middleware():
    return auth_token.AuthProtocol(None, CONFIG)


STATEMENTS, SERVING, AUTH = "db/engine/statements.py", "cli/serving.py", "http/auth.py"
# which distribution; which file of src/abaca uses it; what has it; the names
PARTS = [
    ("sqlalchemy", STATEMENTS, COMPILED, ["_result_columns", "_bind_processors"]),
    ("sqlalchemy", STATEMENTS, COMPILED, ["bind_names", "post_compile_params", "positiontup", "string"]),
    ("sqlalchemy", STATEMENTS, COMPILED, ["insert_prefetch", "update_prefetch", "implicit_returning"]),
    ("sqlalchemy", STATEMENTS, COMPILED, ["literal_execute_params", "escaped_bind_names"]),
    ("sqlalchemy", STATEMENTS, SQLCompiler, ["_process_parameters_for_postcompile"]),
    ("sqlalchemy", STATEMENTS, COMPILED._result_columns[0], ["keyname", "type"]),
    ("sqlalchemy", STATEMENTS, sa.bindparam("a"), ["key", "required", "effective_value"]),
    ("sqlalchemy", STATEMENTS, sa.String(), ["dialect_impl", "result_processor"]),
    ("sqlalchemy", STATEMENTS, sa.Connection, ["_handle_dbapi_exception"]),
    ("sqlalchemy", STATEMENTS, ExpandedState, ["statement", "processors", "parameter_expansion", "positiontup"]),
    ("granian", SERVING, _granian.CallbackScheduler, ["_schedule_fn"]),
    ("granian", SERVING, _granian.RSGIWorker, ["serve_str"]),
    ("granian", SERVING, _granian.WorkerSignal, ["add_cb", "set"]),
    ("keystonemiddleware", AUTH, auth_token.AuthProtocol, ["fetch_token"]),
    ("keystonemiddleware", AUTH, middleware, ["_auth", "_session", "_token_cache", "_www_authenticate_uri"]),
    ("keystonemiddleware", AUTH, _exceptions, ["InvalidToken"]),
    ("oslo.config", "settings/reading.py", iniparser.BaseParser, ["_split_key_value", "parse_exc"]),
    ("oslo.messaging", "events/messaging.py", transport, ["_send_notification"]),
    ("prometheus-client", "metrics.py", values, ["ValueClass", "MultiProcessValue"]),
]  # fmt: skip
# what is called; how it is called here
CALLS = [
    ("sqlalchemy", STATEMENTS, SQLCompiler._process_parameters_for_postcompile, "self parameters", []),
    ("sqlalchemy", STATEMENTS, sa.Connection._handle_dbapi_exception, "self error sql bound cursor context", []),
    ("granian", SERVING, _granian.RSGIWorker, "id listening ipc", ["threads", "blocking_threads", "py_threads"]),
    (
        "granian",
        SERVING,
        _granian.RSGIWorker,
        "id listening ipc",
        ["backpressure", "http_mode", "http1_opts", "metrics"],
    ),
    ("granian", SERVING, _granian.SocketHolder, "descriptor is_uds backlog", []),
    ("granian", SERVING, _granian.MetricsAggregator, "workers", []),
    ("granian", SERVING, HTTP1Settings, "", ["header_read_timeout"]),
]
# Not a library's, though they begin with an underscore: named tuples, rows, and the process's own end.
DOCUMENTED = {"_asdict", "_replace", "_fields", "_make", "_mapping", "_exit", "_run_exitfuncs"}


def missing(distribution, used_by, has, names):
    """What to tell whoever raised the library."""
    there = has() if inspect.isfunction(has) else has
    fields = getattr(there, "_fields", ())
    return [
        f"{distribution} {metadata.version(distribution)} no longer has {name}, which src/abaca/{used_by} uses"
        for name in names
        if not hasattr(there, name) and name not in fields
    ]


def uncallable(distribution, used_by, function, positions, keywords):
    """As `missing`, of a function that no longer takes what it is given."""
    try:
        inspect.signature(function).bind(*positions.split(), **dict.fromkeys(keywords))
    except TypeError as error:
        known = f"{function.__qualname__} of {distribution} {metadata.version(distribution)}"
        return [f"{known}, which src/abaca/{used_by} calls: {error}"]
    return []


def ident(value):
    return value if isinstance(value, str) else ",".join(value) if isinstance(value, list) else ""


@pytest.mark.parametrize(("distribution", "used_by", "has", "names"), PARTS, ids=ident)
def test_the_library_still_has_the_part(distribution, used_by, has, names):
    assert missing(distribution, used_by, has, names) == []


@pytest.mark.parametrize(("distribution", "used_by", "function", "positions", "keywords"), CALLS, ids=ident)
def test_the_part_is_still_called_in_that_way(distribution, used_by, function, positions, keywords):
    assert uncallable(distribution, used_by, function, positions, keywords) == []


def test_a_part_that_is_gone_is_named():
    told = missing("sqlalchemy", STATEMENTS, object(), ["_result_columns"])
    version = metadata.version("sqlalchemy")
    assert told == [f"sqlalchemy {version} no longer has _result_columns, which src/abaca/{STATEMENTS} uses"]
    assert "unexpected keyword argument 'colour'" in uncallable("granian", SERVING, HTTP1Settings, "", ["colour"])[0]


def test_every_library_with_a_private_part_in_use_has_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    bounded = {re.split(r"[\[<>=!~]", one)[0] for one in stated if "<" in one}
    assert {distribution for distribution, *_ in PARTS} - bounded == set()


def test_every_private_part_in_use_is_named_here():
    """A private name that nothing of ours defines is somebody else's."""
    used, ours = {}, set(DOCUMENTED)
    for file, tree in python(ROOT, "src"):
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
            elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[:2] != "__":
                used.setdefault(node.attr, file)
                ours |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
    named = {name for *_, names in PARTS for name in names}
    assert {name: file for name, file in used.items() if name not in ours | named} == {}
