# SPDX-License-Identifier: Apache-2.0
"""Commands as a shell would give them, without the price of a process each."""

from typing import NamedTuple

import pytest

from abaca.cli.main import main
from tests.api import world as worlds
from tests.api.attachments import test_attachments as door


class Outcome(NamedTuple):
    """How a command ended and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def abaca(capsys):
    def abaca(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Outcome(end.value.code, said.out, said.err)

    return abaca


@pytest.fixture
def config(tmp_path):
    def config(text=""):
        file = tmp_path / "abaca.conf"
        file.write_text(f"[DEFAULT]\nstate_path = {tmp_path / 'state'}\nhost = here\n{text}")
        return file

    return config


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An Abaca with a worker and a share type, for commands about attachments."""
    with worlds.world(tmp_path_factory.mktemp("attachments"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **door.NEWEST)
        yield made


@pytest.fixture
def attachment(world, abaca):
    def attachment(verb, *words):
        return abaca("attachment", verb, "--config-file", str(world.directory / "abaca.conf"), *words)

    return attachment
