# SPDX-License-Identifier: Apache-2.0
"""The list of microversions and the marks in the code say the same; golden files show what each version changed."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import abaca.api
from abaca import errors
from abaca.api import routes, versions
from abaca.api.compute import versions as compute_versions
from abaca.http import openapi, routing, wire
from lab import compatibility

ROOT = Path(__file__).resolve().parents[2]
TABLE = routing.Table(routes.RESOURCES)


def test_versions_are_numbered_without_a_gap_and_each_has_its_sentence():
    assert [number for number, _ in versions.VERSIONS] == [f"2.{place}" for place in range(len(versions.VERSIONS))]
    assert all(sentence.endswith(".") for _, sentence in versions.VERSIONS)


def features():
    for found in pkgutil.walk_packages(abaca.api.__path__, "abaca.api."):
        if found.name.startswith("abaca.api.compute"):  # it has versions of its own
            continue
        module = importlib.import_module(found.name)
        yield from (value for value in vars(module).values() if isinstance(value, wire.Feature))


def marked():
    """Every version that something in the code names as the first of a change."""
    for route in TABLE.routes:
        yield from route.changes
    yield from (wire.minor(feature.since) for feature in features())


def test_every_mark_names_a_version_that_there_is():
    assert [number for number in marked() if not versions.MINIMUM <= number <= versions.MAXIMUM] == []


def test_every_version_that_is_served_is_marked_somewhere():
    unmarked = {f"2.{number}" for number in range(versions.MAXIMUM + 1)} - {f"2.{number}" for number in marked()}
    absent = {number for number, how in compatibility.served().items() if how.startswith(("no", "not yet"))}
    assert unmarked - absent - set(versions.WITHOUT_MARK) == set(), "give these a mark, or say in versions.py why not"


def test_what_each_version_brought_is_listed():
    assert list(compatibility.brought()) == [number for number, _ in versions.VERSIONS]


@pytest.mark.parametrize(
    ("parts", "how"),
    [
        ({"a": ["GET /shares"], "b": ["View.x"]}, "yes"),
        ({"a": ["GET /shares", "GET /snapshots"], "b": ["View.x"], "c": ["View.y"]}, "partly, without a and c"),
        ({"a": ["GET /shares/{id}"], "b": ["GET /share"], "c": ["tested: tests/nothing.yaml: x"]}, "not yet"),
    ],
    ids=["all", "some", "none"],
)
def test_what_is_missing_is_never_said_to_be_served(parts, how):
    assert compatibility.how_served(parts, {"GET /shares share:get_all", "View.x"}) == how


def test_a_test_that_is_not_there_proves_nothing(tmp_path):
    (tmp_path / "a.yaml").write_text("requests: [{name: it works}]")
    assert compatibility.is_tested(tmp_path / "a.yaml", "it works")
    assert not compatibility.is_tested(tmp_path / "a.yaml", "it works well")
    assert not compatibility.is_tested(tmp_path / "b.yaml", "it works")


def test_a_feature_has_one_version():
    found = {(feature.name, feature.since) for feature in features()}
    assert len({name for name, _ in found}) == len(found)


@pytest.mark.parametrize("asked", ["latest", "", "2", "2.", "2.01", "02.1", "2.1.1", "a.b", "-2.1", "2.٣"])
def test_a_version_that_is_none_is_refused(asked):
    with pytest.raises(errors.Invalid):
        versions.negotiate(asked)


@pytest.mark.parametrize("asked", ["1.0", "3.0", f"2.{versions.MAXIMUM + 1}", "99999.99999"])
def test_a_version_that_is_not_served_is_not_acceptable(asked):
    with pytest.raises(errors.NotAcceptable):
        versions.negotiate(asked)


def references(schema):
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "$ref")
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from references(part)


OLDEST = (TABLE, versions.MINIMUM, versions.DESCRIBED)
NEWEST = (TABLE, versions.MAXIMUM, versions.DESCRIBED)
OF_COMPUTE = (routing.Table(routes.COMPUTE), compute_versions.MAXIMUM, compute_versions.DESCRIBED)


@pytest.mark.parametrize("described", [OLDEST, NEWEST, OF_COMPUTE], ids=["oldest", "newest", "compute"])
def test_the_description_for_machines_is_whole(described):
    document = openapi.document(*described)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert [name for name, operation in zip(names, operations, strict=True) if not operation["summary"]] == []
    for path, found in document["paths"].items():
        for operation in found.values():
            placed = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert placed == {name.strip("{}") for name in path.split("/") if name.startswith("{")}


def test_what_each_version_changes_is_as_the_golden_files_say(golden):
    before: set[str] = set()
    written = []
    for version in range(versions.MAXIMUM + 1):
        now = set(compatibility.facts(version))
        lines = [f"+ {fact}" for fact in now - before] + [f"- {fact}" for fact in before - now]
        if lines:
            number, sentence = versions.VERSIONS[version]
            text = "\n".join([f"# {number}: {sentence}", *sorted(lines, key=lambda line: (line[2:], line[0]))])
            golden(f"tests/golden/api/{number}.txt", text)
            written.append(f"{number}.txt")
        before = now
    kept = {path.name for path in (ROOT / "tests/golden/api").glob("2.*.txt")}
    assert kept - set(written) == set(), "nothing changes at these versions any more: remove the files"


def test_what_the_compute_door_says_and_takes_is_as_the_golden_file_says(golden):
    table, newest, of = OF_COMPUTE
    document = openapi.document(table, newest, of)
    lines = []
    for name, schema in document["components"]["schemas"].items():
        if name != "Fault":
            lines += [f"{name}.{field}: {compatibility.kind_of(kind)}" for field, kind in schema["properties"].items()]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            asked = [one["name"] for one in operation["parameters"] if one["in"] == "query"]
            lines.append(" ?".join([f"{method.upper()} {path} {operation['x-policy']}", *asked]))
    changes = sorted({number for route in table.routes for number in route.changes})
    lines.append("changes at: " + " ".join(f"2.{number}" for number in changes))
    golden("tests/golden/api/compute.txt", "\n".join(sorted(lines)))


def test_every_mark_of_the_compute_door_names_a_version_that_there_is():
    found = {number for route in OF_COMPUTE[0].routes for number in route.changes}
    assert found <= set(range(compute_versions.MAXIMUM + 1))
