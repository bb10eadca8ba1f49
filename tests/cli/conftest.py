# SPDX-License-Identifier: Apache-2.0
"""Commands as a shell would give them, without the price of a process each."""

from typing import NamedTuple

import pytest

from abaca.cli.main import main


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
