# SPDX-License-Identifier: Apache-2.0
"""Horizon with manila-ui, unmodified and set up as docs/operating/clients.md says: its pages open, its forms work.

`make test` opens and fills in a part, drawn by HORIZON_SEED; `make thorough` all.
"""

import os
import random
import re

import pytest
import yaml

from lab import browser, caller
from tests.clients.dashboard import NAMED, PANELS, Dashboard
from tests.clients.dashboard_site import Site
from tests.conftest import ROOT, wait_until

pytestmark = pytest.mark.system

SEED = os.environ.get("HORIZON_SEED", "0")
IS_THOROUGH = bool(os.environ.get("HORIZON_THOROUGH"))
FORMS = yaml.safe_load((ROOT / "tests" / "clients" / "dashboard.yaml").read_text())
SOME_FORMS, SOME_PAGES = 12, 15
THINGS = (
    "served_share",
    "private_type",
    "rule",
    "snapshot_rule",
    "network",
    "security_service",
    "server",
    "rule_lock",
    "lock",
    "message",
    "group_type",
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def kind(path):
    """A page, whatever it is about."""
    return UUID.sub("{id}", path)


def name(form):
    """Who does what where."""
    where = re.sub(r"\{\w+\}", "{id}", form["page"].partition("?")[0])
    action = re.sub(r"_\{\w+\}", "", form["action"])
    return f"{form['who']} {where} {action}" + (" at a Neutron" if form.get("at") == "tenants" else "")


def what(path, action):
    """An action of a panel, whatever it is done to."""
    panel = "/".join(path.split("/")[1:3])
    return panel, re.sub(r"row_.+?__", "row__", action)


# Filters only choose what is shown of a page.
FILTERS = ("project/share_networks", "admin/share_networks", "admin/share_types")
KNOWN = {what(form["page"], form["action"]) for form in FORMS}
KNOWN |= {(panel, f"{panel.partition('/')[2]}__action_filter") for panel in FILTERS}


def drawn():
    """The forms of this run, one at a Neutron among them."""
    if IS_THOROUGH:
        return FORMS
    draw, networked = random.Random(SEED), [form for form in FORMS if form.get("at") == "tenants"]
    others = draw.sample([form for form in FORMS if form not in networked], SOME_FORMS - 1)
    return [*others, draw.choice(networked)]


@pytest.fixture(scope="module")
def site(run):
    with Site(run) as site:
        yield site


@pytest.fixture(scope="module")
def enter(run, site):
    """The dashboard as a user has it, who is logged in when another was before."""
    with browser.Browser(run) as window:
        inside = []

        def enter(who, horizon=site.horizon, region=site.region):
            if not inside or (inside[0].who, inside[0].horizon, inside[0].region) != (who, horizon, region):
                inside[:] = [Dashboard(window, horizon, who, region)]
            return inside[0]

        yield enter


def filled(said, thing):
    """The same with the braces of all its texts filled in."""
    if isinstance(said, str):
        return re.sub(r"\{(\w+)\}", lambda found: str(thing[found[1]]), said)
    if isinstance(said, dict):
        return {filled(key, thing): filled(value, thing) for key, value in said.items()}
    return [filled(one, thing) for one in said] if isinstance(said, list) else said


def agrees(found, wanted):
    """Whether it has at least these values; an empty list is empty."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(agrees(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return bool(wanted) == bool(found) and all(any(agrees(one, each) for one in found) for each in wanted)
    return found == wanted


def answer(region, path):
    """What the API shows to an administrator, `gone` where there is nothing."""
    try:
        return region.admin.get(path)
    except caller.Refused as refused:
        return "gone" if refused.status == 404 else refused.status


def walked(dashboard, most):
    """The kinds of pages that were opened from links, one after the other, with what can be done on them."""
    draw, seen, actions, ahead = random.Random(SEED), set(), set(), ["/project/shares/"]
    while ahead and (IS_THOROUGH or len(seen) < most):
        path = ahead.pop(draw.randrange(len(ahead)))
        links, found = dashboard.page(path)
        actions |= {what(path, action) for action in found}
        for link, is_form in links:
            if PANELS.match(link) and kind(link) not in seen:
                seen.add(kind(link))
                if is_form:
                    dashboard.form(link)
                else:
                    ahead.append(link)
    return seen, actions


@pytest.fixture(scope="module")
def everything(site):
    """One of each thing that a page is about."""
    for thing in THINGS:
        getattr(site.region, thing)()


@pytest.mark.parametrize("who", ["admin", "demo", "demo-reader"])
def test_pages_open_without_an_error(who, site, everything, enter, record_property):
    seen, actions = walked(enter(who), SOME_PAGES)
    assert actions <= KNOWN, "dashboard.yaml says nothing of these"
    drawn = "" if IS_THOROUGH else f", drawn by HORIZON_SEED={SEED}"
    record_property("figure", f"Horizon: {len(seen)} pages and forms opened by {who}{drawn}")


@pytest.mark.parametrize("who", ["admin", "demo"])
def test_pages_open_where_horizon_was_told_nothing(who, site, everything, enter):
    """It asks for groups, replicas and migrations then, which are empty here."""
    dashboard = enter(who, site.untold)
    assert "/project/share_groups/" in {link for link, _ in dashboard.page("/project/shares/")[0]}
    dashboard.page("/project/share_groups/")
    walked(dashboard, SOME_PAGES)


@pytest.mark.parametrize(("who", "page"), [("demo", "/project/share_networks/"), ("admin", "/admin/share_networks/")])
def test_share_networks_name_what_is_beneath_in_neutron(who, page, site, enter):
    network = site.tenants.network()
    dashboard = enter(who, region=site.tenants)
    dashboard.page(f"{page}{network['id']}?tab=share_network_details__subnets_tab")
    assert {network["neutron_net"], network["neutron_subnet"]} <= set(dashboard.browser.ask(NAMED))


@pytest.mark.parametrize("form", drawn(), ids=name)
def test_forms_work(form, site, enter):
    region = getattr(site, form.get("at", "region"))
    thing = getattr(region, form["of"])() if "of" in form else {}
    form = filled(form, thing)
    enter(form["who"], getattr(site, form.get("in", "horizon")), region).act(form)
    for path, wanted in form.get("then", {}).items():
        wait_until(lambda path=path, wanted=wanted: agrees(answer(region, path), wanted))
