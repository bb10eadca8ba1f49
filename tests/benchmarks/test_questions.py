# SPDX-License-Identifier: Apache-2.0
"""The bench of growth asks each list for all that it offers: one that is new, or offers more, is missed here."""

from benchmarks.scale import questions
from tests.db import offers

# What lists are called in questions, where not as in offers.py.
NAMES = {
    "share instances": "share_instances",
    "snapshot instances": "snapshot_instances",
    "resource locks": "locks",
    "findings of an operation": "findings of one operation",
    "nodes of a cluster": "nodes of one cluster",
}
NOT_ASKED = {"history of export locations": "it is one share's, and is asked for among those (ONES)"}
# What of each is not asked for: ids, whose project it is, and what the API has no word of its own for.
ALWAYS = {"id", "id_prefix", "project_id"}
BESIDE = {
    "shares": {"visible_to"},
    "share instances": {"share_id"},
    "findings of an operation": {"operation_id"},
    "operations": {"states"},
    "servers": {"changed_before", "changed_since", "statuses", "user_id"},
    "attachments": {"server_ids", "share_ids"},
    "share transfers": {"share_id"},
    "nodes of a cluster": {"cluster_id"},
    "templates of clusters": {"kind"},
    "share networks": {"status"},
}
# Words of the API that stand for a filter, or for several.
WORDS = {"operations": {"live"}, "servers": {"status"}, "share transfers": {"resource_id"}}


def test_each_list_is_asked_for_every_filter_and_every_order():
    asked = {one.name: one for one in questions.OFFERS}
    there = {name: asked[NAMES.get(name, name)] for name in offers.OFFERS if NAMES.get(name, name) in asked}
    assert offers.OFFERS.keys() - there.keys() == NOT_ASKED.keys()
    for name, question in there.items():
        listing = offers.OFFERS[name].listing
        words = {word.replace("~", "_like") for word in question.filters}
        assert listing.filters - words == (listing.filters & ALWAYS) - words | BESIDE.get(name, set()), name
        assert words - listing.filters == WORDS.get(name, set()), name
        # where the API takes no order, the usual one is what all is asked for in
        assert not question.sorts or set(question.sorts) == listing.sorts, name
