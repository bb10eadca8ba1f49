# SPDX-License-Identifier: Apache-2.0
"""Terraform and OpenTofu with OpenStack's provider as it was released, out of a directory: no registry is asked."""

from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess
from collections.abc import Mapping

from lab import go_programs, processes

_REGISTRIES = {"terraform": "registry.terraform.io", "tofu": "registry.opentofu.org"}
NAMES = tuple(_REGISTRIES)
PROVIDER = "terraform-provider-openstack/openstack"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def program(name: str) -> pathlib.Path:
    """Return `terraform`, which is this machine's own, or `tofu`; raises `NotBuilt`."""
    if name == "tofu":
        return go_programs.built(go_programs.OPENTOFU)
    found = processes.find(name)
    if found is None:
        raise go_programs.NotBuilt(f"there is no {name} on this machine")
    return pathlib.Path(found)


class Terraform:
    """One of them in `directory`, which holds its configuration, its state and the mirror with the provider.

    `environment` is what it is given: who asks and where, and PATH. Raises `NotBuilt`.
    """

    def __init__(self, name: str, directory: pathlib.Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.program = program(name)
        self.directory = directory
        provider = go_programs.built(go_programs.PROVIDER)
        version = go_programs.PROVIDER.release.version
        kind = f"linux_{_ARCHITECTURES[platform.machine()]}"
        mirror = directory / "mirror"
        place = mirror / _REGISTRIES[name] / PROVIDER / version.removeprefix("v") / kind
        place.mkdir(parents=True)
        (place / f"{provider.name}_{version}").symlink_to(provider)
        settings = directory / "settings.tfrc"
        settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n')
        own = {
            "TF_CLI_CONFIG_FILE": str(settings),
            "CHECKPOINT_DISABLE": "1",
            "TF_INPUT": "0",
            "TF_CLI_ARGS": "-no-color",
        }
        self.environment = {"HOME": str(directory), "LANG": "C.UTF-8", **environment, **own}

    def take(self, configuration: pathlib.Path) -> None:
        """Copy a configuration into the directory."""
        shutil.copy(configuration, self.directory)

    def run(self, *words: str, expected: int = 0) -> str:
        """Return what it says, and of what is expected to fail also why; raises `LabError` when it ends otherwise."""
        argv = [str(self.program), *words]
        done = subprocess.run(
            argv,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=processes.PATIENCE_S,
            check=False,
        )
        if done.returncode != expected:
            raise processes.LabError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr if expected else done.stdout
