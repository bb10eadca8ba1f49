# SPDX-License-Identifier: Apache-2.0
"""A body may hold bodies and lists of them, each with versions of its own; an error names the place."""

import pytest

from tests.http import clusters

WORKERS = {"name": "workers", "count": 3}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with clusters.application(tmp_path_factory.mktemp("clusters")) as made:
        yield made


def create(app, *groups, version=clusters.NEWEST, path="/clusters", **more):
    body = {"cluster": {"name": "c", "node_groups": list(groups), **more}}
    return clusters.ask(app, path, body, version)


def message(answer):
    status, body = answer
    assert status == 400
    return body["badRequest"]["message"]


def test_a_list_of_bodies_arrives_as_bodies(app):
    volumes = [{"size": "2"}, {"size": 4, "kind": "fast", "colour": "mauve"}]
    read = ["Volume(size=2, kind='plain')", "Volume(size=4, kind='fast')"]
    status, body = create(app, WORKERS, {"name": "master", "count": "1", "volumes": volumes}, path="/clusters/echo")
    assert (status, body["sent"]) == (
        200,
        [
            "NodeGroup(name='workers', count=3, flavor=None, volumes=None)",
            f"NodeGroup(name='master', count=1, flavor=None, volumes=[{', '.join(read)}])",
            "None",
        ],
    )


def test_a_body_may_hold_one_body(app):
    _, body = create(app, options={"force": "yes"}, path="/clusters/echo")
    assert body["sent"] == ["Options(force=True)"]


def test_a_list_may_be_empty(app):
    assert create(app) == (200, {"cluster": {"name": "c", "groups": []}})


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (["x"], "'node_groups[0]' must be an object."),
        ([None], "'node_groups[0]' must be an object."),
        ([WORKERS, {"name": "x"}], "'node_groups[1].count' is required."),
        ([WORKERS, {"name": "x", "count": "many"}], "'node_groups[1].count' must be a whole number."),
        ([WORKERS, WORKERS, {**WORKERS, "name": 5}], "'node_groups[2].name' must be text of at most 255 characters."),
        ([{**WORKERS, "colour": 1}], "Nothing is known of 'node_groups[0].colour' here."),
        ([{**WORKERS, "volumes": {}}], "'node_groups[0].volumes' must be a list."),
        ([{**WORKERS, "volumes": [{"size": 1}, {"size": 0}]}], "'node_groups[0].volumes[1].size' must be a whole"),
        ([{**WORKERS, "volumes": [{}]}], "'node_groups[0].volumes[0].size' is required."),
    ],
)
def test_an_error_names_the_place(app, groups, says):
    assert message(create(app, *groups)).startswith(says)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"options": []}, "'options' must be an object."),
        ({"options": {"force": "maybe"}}, "'options.force' must be a boolean."),
        ({"node_groups": {}}, "'node_groups' must be a list."),
        ({"node_groups": None}, "'node_groups' must be a list."),
    ],
)
def test_what_is_no_body_where_one_must_be_is_refused(app, sent, says):
    assert message(create(app, **sent)) == says


def test_a_field_of_an_inner_body_is_refused_before_its_version(app):
    said = message(create(app, {"name": "x", "number": 1}, {"name": "x", "number": 1, "flavor": "small"}, version=2))
    assert said == "'node_groups[1].flavor' needs microversion 2.3 or later."
    assert create(app, {**WORKERS, "flavor": "small"}, version=3)[0] == 200


def test_a_field_of_an_inner_body_is_dropped_before_its_version_where_its_class_drops(app):
    group = {**WORKERS, "volumes": [{"size": 1, "kind": "fast"}]}
    for version, kind in ((4, "plain"), (5, "fast")):
        _, body = create(app, group, version=version, path="/clusters/echo")
        assert f"kind='{kind}'" in body["sent"][0]


def test_a_field_of_an_inner_body_has_its_name_of_the_version(app):
    assert create(app, {"name": "x", "number": 1}, version=2)[0] == 200
    assert message(create(app, {"name": "x", "number": 1})) == "'node_groups[0].count' is required."


def test_the_versions_of_an_inner_body_are_those_of_the_route():
    route = next(one for one in clusters.TABLE.routes if one.path == "/clusters" and one.method == "POST")
    assert {3, 5, 7} <= route.changes


def test_the_description_holds_inner_bodies_as_each_version_knows_them():
    def groups(version):
        content = clusters.description(version)["paths"]["/clusters"]["post"]["requestBody"]["content"]
        cluster = content["application/json"]["schema"]["properties"]["cluster"]
        return cluster["properties"]["node_groups"]["items"]

    assert list(groups(2)["properties"]) == ["name", "number", "volumes"]
    assert list(groups(5)["properties"]) == ["name", "count", "flavor", "volumes"]
    assert groups(5)["required"] == ["name", "count"]
    assert groups(5)["additionalProperties"] is False
    (volumes, nothing) = groups(5)["properties"]["volumes"]["anyOf"]
    assert (list(volumes["items"]["properties"]), nothing) == (["size", "kind"], {"type": "null"})
