# SPDX-License-Identifier: Apache-2.0
"""Clients and tests that others wrote in Go, as they were released.

`python -m lab.go_programs` builds them from the Go module proxy, which takes minutes once for each version. A release
is pinned by the hash of its archive, as a go.sum writes it; the go.sum inside proves every other module, so no checksum
database is asked.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from lab import processes

_HOURS_S = 2 * 3600.0


class NotBuilt(processes.LabError):
    """A program is not there: its release or its compiler cannot be had here."""


@dataclasses.dataclass(frozen=True)
class Release:
    """A module at one version, with the hash of its archive."""

    module: str
    version: str
    hash: str


@dataclasses.dataclass(frozen=True)
class Program:
    """What is built of a package of a release: the program, or its tests with the build tags that they want."""

    name: str
    release: Release
    package: str
    tests: bool = False
    tags: str = ""

    @property
    def place(self) -> pathlib.Path:
        """Where it is kept."""
        mark = self.release.hash.removeprefix("h1:").translate(str.maketrans("", "", "/+="))[:16]
        return _cache() / f"{self.name}-{self.release.version}-{mark}" / self.name


_PROVIDER = Release(
    "github.com/terraform-provider-openstack/terraform-provider-openstack/v3",
    "v3.4.0",
    "h1:Ap8gvameIY5ZM7CMh7fngP/VoIyeupzKX3izoyfp9yg=",
)
_OPENTOFU = Release("github.com/opentofu/opentofu", "v1.12.6", "h1:0VT4P8pMmGcCUnQ9JDrJ+Qg2d35Vzm4FFd/9+H7oF98=")
_GOPHERCLOUD = Release(
    "github.com/gophercloud/gophercloud/v2", "v2.15.0", "h1:4zLiLYTFraZMlJ77FH1Kzq7itjfVP+BIbWcCurCrgic="
)
PROVIDER = Program("terraform-provider-openstack", _PROVIDER, ".")
PROVIDER_TESTS = Program("provider-tests", _PROVIDER, "./openstack", tests=True)
OPENTOFU = Program("tofu", _OPENTOFU, "./cmd/tofu")
GOPHERCLOUD_TESTS = Program(
    "gophercloud-tests",
    _GOPHERCLOUD,
    "./internal/acceptance/openstack/sharedfilesystems/v2",
    tests=True,
    tags="acceptance",
)


ALL = (PROVIDER, PROVIDER_TESTS, GOPHERCLOUD_TESTS, OPENTOFU)


def built(program: Program) -> pathlib.Path:
    """Return the program; raises `NotBuilt`."""
    if not program.place.exists():
        raise NotBuilt(f"{program.place} is missing: `make thorough` builds it with Go, and says why it could not")
    return program.place


def main() -> int:
    """Build what is not there, and say what could not be; what is missing is no error of who calls."""
    for program in ALL:
        if program.place.exists():
            continue
        print(f"Building {program.name} of {program.release.module} {program.release.version}", flush=True)
        begun = time.monotonic()
        try:
            _build(program)
        except processes.LabError as problem:
            print(f"{program.name} could not be built: tests of it say so and are skipped. {problem}", file=sys.stderr)
        else:
            print(f"  took {time.monotonic() - begun:.0f} s", flush=True)
    return 0


def _build(program: Program) -> None:
    """Build in a copy, since Go keeps the archive read-only, and put it in place in one move."""
    release = program.release
    place = program.place.parent
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=place.parent) as draft:
        found = json.loads(_go("mod", "download", "-json", f"{release.module}@{release.version}", directory=draft))
        if found["Sum"] != release.hash:
            raise processes.LabError(f"the archive has the hash {found['Sum']}, not {release.hash}")
        source = pathlib.Path(draft, "source")
        shutil.copytree(found["Dir"], source, copy_function=shutil.copyfile)
        processes.command(["chmod", "-R", "u+w", str(source)])
        verb = ["test", "-c", f"-tags={program.tags}"] if program.tests else ["build"]
        made = pathlib.Path(draft, program.name)
        _go(*verb, "-trimpath", "-ldflags=-s -w", "-o", str(made), program.package, directory=source)
        place.mkdir(exist_ok=True)
        made.replace(program.place)


def _go(*words: str, directory: str | pathlib.Path) -> str:
    """Run Go there with its own defaults: no other compiler is fetched, and nothing but go.sum is believed."""
    go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/go/bin"]))
    if go is None:
        raise processes.Missing("go is missing")
    own = {"GOSUMDB": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    argv = [go, *words]
    done = subprocess.run(
        argv, cwd=directory, env={**os.environ, **own}, capture_output=True, text=True, timeout=_HOURS_S, check=False
    )
    if done.returncode:
        raise processes.LabError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _cache() -> pathlib.Path:
    """Where root keeps what takes long to build, others in their own cache."""
    if os.geteuid() == 0:
        return pathlib.Path("/var/cache/abaca-lab/go")
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "abaca-lab" / "go"


if __name__ == "__main__":
    sys.exit(main())
