# SPDX-License-Identifier: Apache-2.0
"""Images as clients of data processing register them, through both versions of the door."""

import uuid

import pytest

from abaca.api.data_processing.images import IMAGE_ID, MOST_IMAGES, MOST_TAGS
from tests.api.clusters import asking
from tests.api.data_processing.test_clusters import BOTH, ask, refused


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with asking.service(tmp_path_factory.mktemp("images")) as made:
        yield made


def listed(world, version, query="", who="member"):
    return [one["id"] for one in ask(world, version, "GET", f"/images{query}", who=who).body["images"]]


def register(world, version, image=None, who="member", **said):
    image = image or str(uuid.uuid4())
    answer = ask(world, version, "POST", f"/images/{image}", {"username": "ubuntu", **said}, who=who)
    assert answer.status == 202, answer
    return answer.body["image"]


@BOTH
def test_the_image_that_is_always_there_stays_as_it_is(world, version):
    assert IMAGE_ID in listed(world, version)
    assert listed(world, version, "?tags=abaca&tags=1.0")[:1] == [IMAGE_ID]
    assert listed(world, version, "?name=as-it-is") == [IMAGE_ID]
    found = ask(world, version, "GET", f"/images/{IMAGE_ID}").body["image"]
    assert (found["name"], found["username"]) == ("as-it-is", "")
    asked = [("POST", "", {"username": "ubuntu"}), ("DELETE", "", None)]
    if version == "2":
        asked += [("PUT", "/tags", {"tags": ["x"]}), ("DELETE", "/tags", None)]
    else:
        asked += [("POST", "/tag", {"tags": ["x"]}), ("POST", "/untag", {"tags": ["abaca"]})]
    for method, path, body in asked:
        answer = ask(world, version, method, f"/images/{IMAGE_ID}{path}", body)
        assert "as-it-is" in refused(answer, 400, "INVALID_DATA")
    assert ask(world, version, "GET", f"/images/{IMAGE_ID}").body["image"] == found


@BOTH
def test_an_image_is_registered_changed_and_forgotten(world, version):
    made = register(world, version, description="of the night")
    assert (made["name"], made["username"], made["description"]) == (made["id"], "ubuntu", "of the night")
    assert (made["status"], made["tags"]) == ("ACTIVE", [])
    assert ask(world, version, "GET", f"/images/{made['id']}").body["image"] == made
    # again: what is not said is reset, as its clients expect
    again = register(world, version, made["id"], username="debian")
    assert again == made | {"username": "debian", "description": ""}
    assert listed(world, version).count(made["id"]) == 1
    assert ask(world, version, "DELETE", f"/images/{made['id']}").status == 204
    assert made["id"] not in listed(world, version)
    for method in ("GET", "DELETE"):
        assert made["id"] in refused(ask(world, version, method, f"/images/{made['id']}"), 404, "NOT_FOUND")


@BOTH
def test_images_are_found_by_all_their_tags_which_outlive_a_new_user(world, version):
    image = register(world, version)["id"]
    if version == "2":
        answer = ask(world, version, "PUT", f"/images/{image}/tags", {"tags": ["b", "a", "b"]})
        # the library reads the one, its commands the other
        assert answer.body["image"]["tags"] == answer.body["tags"] == ["b", "a"]
        assert ask(world, version, "GET", f"/images/{image}/tags").body == {"tags": ["b", "a"]}
    else:
        ask(world, version, "POST", f"/images/{image}/tag", {"tags": ["x", "b"]})
        ask(world, version, "POST", f"/images/{image}/tag", {"tags": ["a", "b"]})
        answer = ask(world, version, "POST", f"/images/{image}/untag", {"tags": ["x", "nosuch"]})
        assert answer.body["image"]["tags"] == ["b", "a"]
    assert answer.status == 202
    assert listed(world, version, "?tags=a&tags=b") == listed(world, version, "?tags=a") == [image]
    assert listed(world, version, "?tags=a&tags=c") == listed(world, version, "?tags=c&tags=a") == []
    assert register(world, version, image, username="debian")["tags"] == ["b", "a"]
    if version == "2":
        assert ask(world, version, "DELETE", f"/images/{image}/tags").status == 204
    else:
        ask(world, version, "POST", f"/images/{image}/untag", {"tags": ["a", "b"]})
    assert ask(world, version, "GET", f"/images/{image}").body["image"]["tags"] == []


@BOTH
def test_images_are_no_templates_and_those_of_their_project_alone(world, version):
    image = register(world, version)["id"]
    assert image not in listed(world, "2", who="other")
    for method in ("GET", "DELETE"):
        refused(ask_as_other(world, method, f"/images/{image}"), 404, "NOT_FOUND")
    for kind in ("cluster", "node-group"):
        answer = ask(world, version, "GET", f"/{kind}-templates?name={image}")
        assert answer.body[f"{kind.replace('-', '_')}_templates"] == []
    # each project says for itself what it is
    theirs = ask_as_other(world, "POST", f"/images/{image}", {"username": "root"})
    assert (theirs.status, theirs.body["image"]["username"]) == (202, "root")
    assert ask(world, version, "GET", f"/images/{image}").body["image"]["username"] == "ubuntu"


def ask_as_other(world, method, path, body=None):
    return world.ask("other", method, f"//data-processing/v2{path}", body)


@BOTH
def test_what_is_no_image_user_or_tag_is_refused(world, version):
    image = register(world, version)["id"]
    path, tags = ("/tags", "PUT") if version == "2" else ("/tag", "POST")
    for name, method, at, body in (
        ("VALIDATION_ERROR", "POST", image, {}),
        ("VALIDATION_ERROR", "POST", image, {"username": 7}),
        ("VALIDATION_ERROR", "POST", image, {"username": "ubuntu", "colour": "mauve"}),
        ("INVALID_DATA", "POST", image, {"username": ""}),
        ("INVALID_DATA", "POST", "no-id", {"username": "ubuntu"}),
        ("VALIDATION_ERROR", tags, f"{image}{path}", {}),
        ("VALIDATION_ERROR", tags, f"{image}{path}", {"tags": "x"}),
        ("INVALID_DATA", tags, f"{image}{path}", {"tags": [""]}),
        ("INVALID_DATA", tags, f"{image}{path}", {"tags": ["a b"]}),
        ("INVALID_DATA", tags, f"{image}{path}", {"tags": ["x" * 65]}),
        ("INVALID_DATA", tags, f"{image}{path}", {"tags": [f"t{number}" for number in range(MOST_TAGS + 1)]}),
    ):
        refused(ask(world, version, method, f"/images/{at}", body), 400, name)
    assert ask(world, version, "GET", f"/images/{image}").body["image"]["tags"] == []
    nothing = str(uuid.uuid4())
    refused(ask(world, version, tags, f"/images/{nothing}{path}", {"tags": ["x"]}), 404, "NOT_FOUND")


def test_a_project_registers_no_more_images_than_are_listed(world):
    while len(found := listed(world, "2", who="other")) <= MOST_IMAGES:
        image = str(uuid.uuid4())
        assert ask_as_other(world, "POST", f"/images/{image}", {"username": "root"}).status == 202
        assert image in listed(world, "2", who="other")
    answer = ask_as_other(world, "POST", f"/images/{uuid.uuid4()}", {"username": "root"})
    assert str(MOST_IMAGES) in refused(answer, 400, "INVALID_DATA")
    # one that is registered may still be changed
    assert ask_as_other(world, "POST", f"/images/{found[-1]}", {"username": "debian"}).status == 202
