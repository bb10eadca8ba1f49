# SPDX-License-Identifier: Apache-2.0
"""What a person does in Horizon: log in, look at pages, fill in forms, press buttons."""

import re

from lab import keystone
from tests.conftest import wait_until

PANELS = re.compile(r"^/(project|admin)/(shares?|security_services|user_messages|resource_locks)([a-z_]+)?/")
LINKS = "[...document.querySelectorAll('a[href]')].map(one => [one.pathname + one.search, one.matches('.ajax-modal')])"
ACTIONS = "[...document.querySelectorAll('[id*=__action_]')].map(one => one.id)"
NAMED = "[...document.querySelectorAll('a[href]')].map(one => one.innerText.trim())"
TOLD = "[...document.querySelectorAll('.messages .alert')].map(one => one.innerText.trim())"
COMPLAINTS = (
    "[...document.querySelectorAll('.alert-danger, .alert-error, .has-error .help-block')]"
    ".map(one => one.innerText.trim()).filter(text => text)"
)
FOUND = "document.querySelector(arguments[0]) !== null"
SUBMIT = ".modal.in [type=submit].btn-primary"
CONFIRM = ".modal.in .modal-footer a.btn-danger, .modal.in .modal-footer a.btn-primary"
ADD = ".modal.in .available_members li[data-update_members-id$='{}'] + li a"
INSIDE = """(() => {
    const asked = new XMLHttpRequest();
    asked.open('GET', arguments[0], false);
    asked.setRequestHeader('X-Requested-With', 'XMLHttpRequest');
    asked.send();
    return [asked.status, asked.responseText.includes('<form') && !asked.responseText.includes('alert-danger')];
})()"""
CLICK = "document.querySelector(arguments[0]).click() || true"
FILL = """(() => {
    const one = document.querySelector(arguments[0]);
    if (one.type === 'checkbox') { if (one.checked !== arguments[1]) one.click(); return one.checked; }
    one.value = arguments[1];
    one.dispatchEvent(new Event('change', {bubbles: true}));
    return one.value;
})()"""


class Dashboard:
    """One user in one browser, who looks at one region and the project `demo` of it."""

    def __init__(self, browser, horizon, who, region):
        self.browser, self.who, self.horizon, self.region, self._url = browser, who, horizon, region, horizon.url
        browser.window.delete_all_cookies()
        browser.open(f"{self._url}/auth/login/?next=/project/shares/")
        # what a person has chosen before; Horizon takes any otherwise
        for name, value in (("services_region", region.name), ("recent_project", region.project_id)):
            browser.window.add_cookie({"name": name, "value": value})
        for name, value in (("username", who), ("password", keystone.USERS[who].password)):
            self.fill(name, value)
        self.press("#loginBtn")
        wait_until(lambda: browser.address == "/project/shares/")

    def page(self, path):
        """The links and actions of a page that shows no error."""
        status = self.browser.open(self._url + path)
        complaints = self.browser.ask(COMPLAINTS)
        assert (status, complaints) == (200, []), f"{path} for {self.who}: {status} {complaints}"
        return self.browser.ask(LINKS), self.browser.ask(ACTIONS)

    def form(self, path):
        """Have a form come as it comes when its button is pressed; it shows no error."""
        assert self.browser.ask(INSIDE, path) == [200, True], f"{path} for {self.who}"

    def fill(self, name, value):
        """Write into the field of a name, choose in it or tick it."""
        field = f"[name='{name}']"
        wait_until(lambda: self.browser.ask(FOUND, field))
        assert self.browser.ask(FILL, field, value) == value, f"{name} does not take {value}"

    def press(self, what):
        """Click on what a selector finds, when it is there."""
        wait_until(lambda: self.browser.ask(FOUND, what))
        wait_until(lambda: self.browser.ask(CLICK, what))

    def act(self, wanted):
        """Press what an entry of dashboard.yaml says, fill in what comes or confirm; no error is shown then."""
        self.page(wanted["page"])
        if "tick" in wanted:
            self.press(f"input[type=checkbox][value='{wanted['tick']}']")
        button = f"[id='{wanted['action']}']"
        assert self.browser.ask(FOUND, button), f"not on the page: {self.browser.ask(ACTIONS)}"
        self.press(button)
        if "leads" in wanted:
            wait_until(lambda: self.browser.address == wanted["leads"])
            return
        if "join" in wanted:
            self.press(ADD.format(wanted["join"]))
        for name, value in wanted.get("fields", {}).items():
            self.fill(name, value)
        forms = "fields" in wanted or "join" in wanted
        self.press(SUBMIT if forms else CONFIRM)
        wait_until(lambda: self.browser.ask(TOLD) or self.browser.ask(COMPLAINTS))
        complaints = self.browser.ask(COMPLAINTS)
        assert complaints == [], f"{complaints} of {wanted}"
