# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code does; `make docs` writes them."""

import re
from pathlib import Path

import pytest

from abaca.domain.attachments import attachments
from abaca.domain.shares import access_rules, shares, snapshots
from lab import compatibility, reference

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
# Where users read what each status means.
EXPLAINED = {
    "states.md": shares.SHARE_INSTANCE,
    "rules.md": access_rules.ACCESS_RULE,
    "snapshots.md": snapshots.SNAPSHOT_INSTANCE,
    "attachments.md": attachments.ATTACHMENT,
}


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_page_says_what_the_code_does(page, golden):
    golden(page, reference.PAGES[page]())


def test_readme_says_what_is_not_served_yet():
    text = " ".join(README.read_text().split())
    assert compatibility.not_yet() in text
    assert ("Not served yet" in text) == bool(compatibility.not_yet())


@pytest.mark.parametrize("page", EXPLAINED)
def test_the_users_page_explains_every_status(page):
    lines = (ROOT / "docs" / "using" / page).read_text().splitlines()
    said = {word for line in lines if line[:3] == "| `" for word in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert EXPLAINED[page].values - said == set()


def test_every_page_for_users_is_listed():
    pages = {page.name for page in (ROOT / "docs" / "using").glob("*.md")} - {"README.md"}
    listed = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs" / "using" / "README.md").read_text()))
    assert listed == pages
