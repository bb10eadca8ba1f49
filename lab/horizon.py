# SPDX-License-Identifier: Apache-2.0
"""A real Horizon with manila-ui on loopback, both as they come from PyPI, over the lab's Keystone.

Its scripts and styles are compressed once for a run, which takes about five seconds; all that run there have the same.
"""

from __future__ import annotations

import pathlib
import secrets
import shutil
from collections.abc import Mapping
from typing import Self

from lab import keystone, openstack, processes, runs

_HOST = "127.0.0.1"
_SETTINGS = """from openstack_dashboard.defaults import DEFAULT_POLICY_FILES, POLICY_FILES

ALLOWED_HOSTS = ["{host}"]
SECRET_KEY = "{secret}"
STATIC_ROOT = "{static}"
COMPRESS_OFFLINE = True
OPENSTACK_KEYSTONE_URL = "{auth_url}"
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
POLICY_FILES_PATH = "{home}/conf"
POLICY_FILES = {{**POLICY_FILES, "share": "manila_policy.yaml"}}
DEFAULT_POLICY_FILES = {{**DEFAULT_POLICY_FILES, "share": "default_policies/manila.yaml"}}
OPENSTACK_MANILA_FEATURES = {features!r}
LOGGING = {{
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {{"console": {{"class": "logging.StreamHandler"}}}},
    "root": {{"handlers": ["console"], "level": "WARNING"}},
}}
"""


class Horizon:
    """A Horizon at `url`, known before it starts. `features` is what it is told under OPENSTACK_MANILA_FEATURES."""

    def __init__(
        self, run: runs.Run, cloud: keystone.Keystone, features: Mapping[str, object], name: str = "horizon"
    ) -> None:
        self._run = run
        self._cloud = cloud
        self._features = dict(features)
        self._name = name
        self._home = run.path(name)
        self._static = run.directory / "horizon-static"
        self._process: processes.Process | None = None
        self.port = processes.free_port(_HOST)
        self.url = f"http://{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """All that it and what it calls said so far."""
        return "" if self._process is None else self._process.log.read_text()

    def start(self, timeout_s: float = 90.0) -> Self:
        """Return when pages are served."""
        openstack.make_environment()
        self._set_up()
        script = str(pathlib.Path(__file__).with_name("horizon_server.py"))
        argv = [str(openstack.PYTHON), "-P", script, str(self._home)]
        if not self._static.exists():
            processes.command(["env", *(f"{name}={value}" for name, value in openstack.KEEP_BYTECODE.items()), *argv])
        launch = processes.Launch(env=openstack.KEEP_BYTECODE)
        self._process = self._run.spawn([*argv, _HOST, str(self.port)], log=f"{self._name}-output.log", launch=launch)
        processes.wait_for_port(_HOST, self.port, timeout_s, self._process)
        return self

    def stop(self) -> None:
        """Stop; who was logged in is not any more."""
        if self._process is not None:
            self._process.stop(timeout_s=5.0)
            self._process = None

    def _set_up(self) -> None:
        """Write what an operator writes, and put the policies of both packages beside each other."""
        (packages,) = (openstack.ENVIRONMENT / "lib").glob("python3.*/site-packages")
        for package in ("openstack_dashboard", "manila_ui"):
            shutil.copytree(packages / package / "conf", self._home / "conf", dirs_exist_ok=True)
        place = self._run.path(self._name, "local")
        (place / "__init__.py").touch()
        said = {"host": _HOST, "secret": secrets.token_hex(), "features": self._features}
        where = {"home": self._home, "static": self._static, "auth_url": self._cloud.auth_url}
        (place / "local_settings.py").write_text(_SETTINGS.format(**said, **where))
