# SPDX-License-Identifier: Apache-2.0
"""Images, as clients of data processing register them: by the id of each in the image service, with a user and tags.

No server is made here, so they decide on nothing: what is said of them is kept and shown. One is always there, for
clients that need one to name; it stands for whatever servers have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.api.data_processing import faults, permissions, plugins
from abaca.api.data_processing.versions import V1, V2
from abaca.db.clusters import templates
from abaca.db.engine.lists import Page
from abaca.domain import ids
from abaca.http.bodies import Body, Filters, Name, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.templates import Template

IMAGE, IMAGE_ID = "as-it-is", "0e5d8b1c-6a47-4d0e-9a39-5f1c7d3b2a10"
# So many a project registers: clients read all of them at once.
MOST_IMAGES = 100
MOST_TAGS = 50

IMAGES = Resource("images of data processing", "/images")


class ImageView(View):
    """An image; one that was registered is called by its id, as only the image service knows what it is called."""

    id: str
    name: str
    status: str
    username: str
    description: str
    tags: list[str]
    metadata: dict[str, str]


class TaggedView(ImageView):
    """An image, and the same once more under `image`: the library reads the one, its commands the other."""

    image: ImageView


class ImageFilters(Filters):
    """What lists of images may be asked for: a name, and tags of which they have each."""

    name: Text
    tags: Text


class RegisterImage(Body, unknown="refuse"):
    """As whom one logs in to servers of an image, and what it is."""

    username: Name
    description: Name | None = None


class Tags(Body, unknown="refuse"):
    """Some tags."""

    tags: list[Name]


_IMAGE: dict[str, object] = {
    "id": IMAGE_ID,
    "name": IMAGE,
    "status": "ACTIVE",
    # clients look for a part of it
    "username": "",
    "description": "Whatever the servers have.",
    "tags": plugins.TAGS,
    "metadata": {},
}
_ALL, _ONE, _TAGS = Plain("images", list[ImageView]), Plain("image", ImageView), Plain("tags", list[str])
_TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")


@IMAGES.get(policy=permissions.IMAGES_V1, until=V1, view=_ALL, filters=ImageFilters)
@IMAGES.get(policy=permissions.IMAGES_V2, since=V2, view=_ALL, filters=ImageFilters)
def images(call: Call, filters: dict[str, object]) -> list[dict[str, object]]:
    """The image that is always there, and those that the project has registered, the oldest first."""
    said = call.request.params.get("tags", [])
    wanted = set(said if isinstance(said, list) else [said])
    with call.db.read() as tx:
        found = [_IMAGE, *map(_shown, _registered(call, tx))]
    return [one for one in found if filters.get("name", one["name"]) == one["name"] and wanted.issubset(_tags(one))]


@IMAGES.get("/{id}", policy=permissions.IMAGE_V1, until=V1, view=_ONE)
@IMAGES.get("/{id}", policy=permissions.IMAGE_V2, since=V2, view=_ONE)
def image(call: Call, id: str) -> dict[str, object]:
    """One image."""
    if id == IMAGE_ID:
        return _IMAGE
    with call.db.read() as tx:
        return _shown(_found(call, tx, id))


@IMAGES.post("/{id}", policy=permissions.REGISTER_IMAGE_V1, until=V1, body=RegisterImage, view=_ONE, status=202)
@IMAGES.post("/{id}", policy=permissions.REGISTER_IMAGE_V2, since=V2, body=RegisterImage, view=_ONE, status=202)
def register(call: Call, id: str, body: RegisterImage) -> dict[str, object]:
    """Register an image; of one that is registered the tags stay as they are."""
    if not ids.is_id(id):
        raise faults.InvalidData(f"{id[:64]!r} is no id of an image; register it by the id that the image service has.")
    if not body.username:
        raise faults.InvalidData("'username' is as whom one logs in to servers of the image; it must not be empty.")
    with call.db.write() as tx:
        _lock(call, tx, id)
        found = templates.named(tx, call.caller.project_id, "image", id)
        content = {"username": body.username, "tags": [] if found is None else found.content["tags"]}
        values = {"description": body.description or None, "content": content}
        if found is not None:
            templates.update(tx, found.id, values)
        else:
            if len(_registered(call, tx)) >= MOST_IMAGES:
                raise faults.InvalidData(f"A project registers at most {MOST_IMAGES} images; unregister some first.")
            own = {"project_id": call.caller.project_id, "kind": "image", "name": id, "is_protected": False}
            templates.add(tx, {**own, **values})
        return _shown(_found(call, tx, id))


@IMAGES.delete("/{id}", policy=permissions.UNREGISTER_IMAGE_V1, until=V1, status=204)
@IMAGES.delete("/{id}", policy=permissions.UNREGISTER_IMAGE_V2, since=V2, status=204)
def unregister(call: Call, id: str) -> None:
    """Forget an image; clusters that name it stay as they are."""
    with call.db.write() as tx:
        _lock(call, tx, id)
        templates.remove(tx, _found(call, tx, id).id)


@IMAGES.post("/{id}/tag", policy=permissions.ADD_IMAGE_TAGS_V1, until=V1, body=Tags, view=_ONE, status=202)
def add_tags(call: Call, id: str, body: Tags) -> dict[str, object]:
    """An image has these tags as well."""
    return _tag(call, id, more=body.tags)


@IMAGES.post("/{id}/untag", policy=permissions.REMOVE_IMAGE_TAGS_V1, until=V1, body=Tags, view=_ONE, status=202)
def remove_tags(call: Call, id: str, body: Tags) -> dict[str, object]:
    """An image has these tags no more."""
    return _tag(call, id, less=body.tags)


@IMAGES.get("/{id}/tags", policy=permissions.IMAGE_TAGS_V2, since=V2, view=_TAGS)
def tags(call: Call, id: str) -> list[str]:
    """The tags of an image."""
    return _tags(image(call, id))


@IMAGES.put(
    "/{id}/tags",
    policy=permissions.SET_IMAGE_TAGS_V2,
    since=V2,
    body=Tags,
    view=Plain(None, TaggedView),
    status=202,
)
def set_tags(call: Call, id: str, body: Tags) -> dict[str, object]:
    """An image has these tags, and no others."""
    found = _tag(call, id, more=body.tags, less=None)
    return {**found, "image": found}


@IMAGES.delete("/{id}/tags", policy=permissions.REMOVE_IMAGE_TAGS_V2, since=V2, status=204)
def remove_all_tags(call: Call, id: str) -> None:
    """An image has no tags."""
    _tag(call, id, less=None)


# ---------------------------------------------------------------- what is kept of them


def _tag(
    call: Call, id: str, *, more: list[str] | tuple[()] = (), less: list[str] | tuple[()] | None = ()
) -> dict[str, object]:
    """An image with other tags; `less` of None: without those it had."""
    if wrong := [one for one in (*more, *(less or ())) if not _TAG.fullmatch(one)]:
        raise faults.InvalidData(
            f"{wrong[0][:64]!r} is no tag: one has 1 to 64 letters, digits and the characters . _ -"
        )
    with call.db.write() as tx:
        _lock(call, tx, id)
        found = _found(call, tx, id)
        had = [] if less is None else [one for one in _tags(found.content) if one not in less]
        now = list(dict.fromkeys([*had, *more]))
        if len(now) > MOST_TAGS:
            raise faults.InvalidData(f"An image has at most {MOST_TAGS} tags.")
        templates.update(tx, found.id, {"content": {**found.content, "tags": now}})
        return _shown(_found(call, tx, id))


def _lock(call: Call, tx: Tx, id: str) -> None:
    """Nobody else changes the project's images. Raises `InvalidData` for the one that stays as it is."""
    if id == IMAGE_ID:
        raise faults.InvalidData(f"The image {IMAGE} stays as it is; register another one by its id.")
    tx.lock_names([f"images of {call.caller.project_id}"])


def _registered(call: Call, tx: Tx) -> list[Template]:
    asked = {"project_id": call.caller.project_id, "kind": "image"}
    return list(templates.page(tx, asked, Page(limit=MOST_IMAGES, descending=False)))


def _found(call: Call, tx: Tx, id: str) -> Template:
    found = templates.named(tx, call.caller.project_id, "image", id)
    if found is None:
        raise errors.NotFound(resource="Image", id=id)
    return found


def _shown(found: Template) -> dict[str, object]:
    own = {"id": found.name, "name": found.name, "status": "ACTIVE", "description": found.description or ""}
    return {**own, "metadata": {}, **found.content}


def _tags(found: dict[str, object]) -> list[str]:
    return msgspec.convert(found["tags"], list[str])
