# SPDX-License-Identifier: Apache-2.0
"""Every answer can have versions: of actions, of lists that no database made, of views in views."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks

from tests.http import clusters

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]
SMALL, LARGE = {"name": "small", "count": 1, "flavor": "f"}, {"name": "large", "count": 5}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with clusters.application(tmp_path_factory.mktemp("clusters")) as made:
        yield made


def resized(app, version, *groups):
    renamed = [{"number" if name == "count" and version < 3 else name: one[name] for name in one} for one in groups]
    return clusters.ask(app, "/clusters/1/action", {"resize": {"node_groups": renamed}}, version)


def test_the_answer_of_an_action_is_in_the_shape_of_the_version(app):
    assert resized(app, 2, LARGE) == (202, {"largest": {"name": "large", "number": 5}})
    status, body = resized(app, 3, SMALL, LARGE)
    assert (status, body["largest"]) == (202, {"name": "large", "count": 5, "flavor": None})
    assert body["groups"] == {
        "small": {"name": "small", "count": 1, "flavor": "f"},
        "large": {"name": "large", "count": 5, "flavor": None},
    }


def test_a_view_may_be_missing_and_a_field_unset(app):
    said = clusters.ask(app, "/clusters/1/action", {"resize": {}}, 3)
    assert said == (202, {"largest": None, "groups": {}, "remark": "none"})
    assert "remark" not in clusters.ask(app, "/clusters/1/action", {"resize": {}}, 6)[1]


def test_a_list_that_a_handler_makes_is_in_the_shape_of_the_version(app):
    asked = {"nodes": None}
    assert clusters.ask(app, "/clusters/c/action", asked, 3)[1]["nodes"][0] == {"name": "c-0"}
    assert clusters.ask(app, "/clusters/c/action", asked, 4)[1]["nodes"][0] == {"name": "c-0", "host": "host0"}


def test_views_in_views_are_in_the_shape_of_the_version(app):
    for version, names in ((3, ["count", "flavor", "name"]), (4, ["count", "flavor", "name", "nodes"])):
        body = {"cluster": {"name": "c", "node_groups": [SMALL]}}
        (group,) = clusters.ask(app, "/clusters", body, version)[1]["cluster"]["groups"]
        assert sorted(group) == names
    assert group["nodes"][1] == {"name": "small-1", "host": "host1"}


def test_what_is_for_administrators_is_not_shown_to_others(tmp_path):
    with clusters.application(tmp_path, admin="role:nobody") as app:
        assert clusters.ask(app, "/clusters/c/action", {"nodes": None})[1]["nodes"][0] == {"name": "c-0"}


def test_the_versions_of_what_an_answer_is_made_of_are_those_of_the_route():
    changes = {route.action: route.changes for route in clusters.TABLE.routes}
    assert {3, 4, 6} <= changes["resize"]
    assert changes["nodes"] == {0, 4}


def test_the_description_holds_the_views_of_each_version():
    def view(name, version):
        schema = clusters.description(version)["components"]["schemas"][name]
        return sorted(schema["properties"]), sorted(schema["required"])

    assert view("ResizedView", 2) == (["largest", "remark"], ["largest"])
    assert view("ResizedView", 6) == (["groups", "largest"], ["groups", "largest"])
    assert view("NodeView", 4) == (["host", "name"], ["name"])


@pytest.mark.parametrize("version", [0, 4, clusters.NEWEST])
def test_made_up_requests_are_answered_as_described(app, version):
    described = schemathesis.openapi.from_wsgi(f"/toy/{version}.json", app)
    for found in described.get_all_operations():
        for mode in GenerationMode:
            budget = settings(
                max_examples=8,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )

            @budget
            @given(case=found.ok().as_strategy(generation_mode=mode))
            def run(case):
                answer = case.call(headers={"x-version": f"2.{version}"})
                case.validate_response(answer, checks=CHECKS if answer.content else CHECKS[:2])

            run()
