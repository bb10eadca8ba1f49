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


def test_every_version_is_marked_somewhere_or_listed_as_not_served():
    unmarked = {f"2.{number}" for number in range(versions.MAXIMUM + 1)} - {f"2.{number}" for number in marked()}
    listed = set(versions.NOT_SERVED) | set(versions.WITHOUT_MARK)
    assert unmarked - listed == set(), "give these a mark, or say in versions.py why not"
    assert set(versions.NOT_SERVED) - unmarked == set(), "these have a mark now: take them out of NOT_SERVED"
    assert set(versions.PARTLY_SERVED) & set(versions.NOT_SERVED) == set()
    assert set(versions.PARTLY_SERVED) <= {number for number, _ in versions.VERSIONS}


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


def facts(version):
    """One line for each thing that can be asked, sent or answered."""
    document = openapi.document(TABLE, version, versions.DESCRIBED)
    for name, schema in document["components"]["schemas"].items():
        if name != "Fault":
            for field, kind in schema["properties"].items():
                needed = "" if field in schema.get("required", ()) else "?"
                yield f"{name}.{field}{needed}: {kind_of(kind)}"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            call = f"{method.upper()} {path}"
            experimental = any(p["name"].endswith("Experimental") for p in operation["parameters"])
            yield f"{call} {operation['x-policy']}" + (" (experimental)" if experimental else "")
            for parameter in operation["parameters"]:
                if parameter["name"] == "limit":
                    yield f"{call} ?paging"
                elif parameter["in"] == "query" and parameter["name"] not in dict(openapi.PAGING):
                    yield f"{call} ?{parameter['name']}: {kind_of(parameter['schema'])}"
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values() if status.startswith("2") else ():
                    yield f"{call} {status}: {kind_of(content['schema'])}"
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            yield from (f"{call} <{fact}" for fact in sent(body))


def sent(schema, path=""):
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    for choice in choices:
        for field, kind in choice.get("properties", {}).items():
            needed = "" if field in choice.get("required", ()) else "?"
            yield f"{path} {field}{needed}: {kind_of(kind)}"
            yield from sent(kind, f"{path} {field}")


def kind_of(schema):
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(sorted({kind_of(one) for one in schema[several]}))
    if "enum" in schema:
        return "|".join(str(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"[{kind_of(schema.get('items', {}))}]"
    if schema.get("type") == "object" and "properties" in schema:
        return "{" + ", ".join(f"{name}: {kind_of(kind)}" for name, kind in sorted(schema["properties"].items())) + "}"
    return schema.get("type", "anything")


def test_what_each_version_changes_is_as_the_golden_files_say(golden):
    before: set[str] = set()
    written = []
    for version in range(versions.MAXIMUM + 1):
        now = set(facts(version))
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
            lines += [f"{name}.{field}: {kind_of(kind)}" for field, kind in schema["properties"].items()]
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
