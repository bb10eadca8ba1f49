# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven as a person would drive it: pages are opened, things on them are clicked."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.remote import webdriver as remote

from lab import processes, runs

_HOST = "127.0.0.1"
_WAYS = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1400,1000",
)


class Browser:
    """One window. Nothing that it keeps is left behind."""

    def __init__(self, run: runs.Run, name: str = "browser") -> None:
        processes.need("chromium", "chromedriver", package="chromium chromium-driver")
        self._run = run
        self._name = name
        self._ends = contextlib.ExitStack()
        self._window: remote.WebDriver | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ends:
            port = processes.free_port(_HOST)
            argv = [processes.find("chromedriver") or "", f"--port={port}"]
            driver = self._run.spawn(argv, log=f"{self._name}.log")
            ends.callback(driver.stop)
            processes.wait_for_port(_HOST, port, 60.0, driver)
            self._window = remote.WebDriver(f"http://{_HOST}:{port}", options=self._options())
            ends.callback(self._window.quit)
            self._window.set_page_load_timeout(processes.PATIENCE_S)
            self._window.set_script_timeout(processes.PATIENCE_S)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ends.close()

    @property
    def window(self) -> remote.WebDriver:
        """What Selenium knows of it."""
        if self._window is None:
            raise processes.LabError("the browser is not open")
        return self._window

    @property
    def address(self) -> str:
        """Where it is, without the site."""
        return "/" + self.window.current_url.split("/", 3)[3]

    def open(self, url: str) -> int:
        """Go there as if it was typed, and return the HTTP status of what came."""
        self.window.get(url)
        return int(self.window.execute_script("return performance.getEntriesByType('navigation')[0].responseStatus"))  # type: ignore[no-untyped-call]

    def ask(self, script: str, *values: object) -> Any:
        """What a script of one expression makes of the page, None while another one comes."""
        with contextlib.suppress(exceptions.WebDriverException):
            return self.window.execute_script(f"return {script}", *values)  # type: ignore[no-untyped-call]
        return None

    def _options(self) -> webdriver.ChromeOptions:
        options = webdriver.ChromeOptions()
        options.binary_location = processes.find("chromium") or ""
        for way in (*_WAYS, f"--user-data-dir={self._run.path(self._name)}"):
            options.add_argument(way)
        return options
