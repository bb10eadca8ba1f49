# SPDX-License-Identifier: Apache-2.0
"""The user-mode kernel fits the registers of the processor that it runs on."""

import struct

import pytest

from lab import registers

pytestmark = pytest.mark.system
BEFORE, AFTER = b"text\x48\xc7\x45\xf8", b"\xbf\x05\x42\x00\x00rest"


@pytest.fixture
def program(tmp_path):
    def built_for(size):
        path = tmp_path / "linux"
        path.write_bytes(BEFORE + struct.pack("<I", size) + AFTER)
        return path

    return built_for


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "run"
    made.mkdir()
    return made


def test_the_processor_has_at_least_the_registers_that_every_such_processor_has():
    """The legacy area and the header of the extended one."""
    assert registers.size() >= 512 + 64


def test_one_that_was_built_for_fewer_registers_is_copied_with_the_right_size(program, directory):
    given = program(registers.size() - 8)
    copy = registers.fitting(given, directory)
    assert copy.read_bytes() == BEFORE + struct.pack("<I", registers.size()) + AFTER
    assert copy.stat().st_mode & 0o111
    assert registers.fitting(given, directory) == copy == directory / "linux"


def test_one_that_was_built_for_as_many_or_does_not_say_is_taken_as_it_is(program, directory):
    fits = program(registers.size())
    assert registers.fitting(fits, directory) == fits
    fits.write_bytes(b"a kernel that asks")
    assert registers.fitting(fits, directory) == fits
