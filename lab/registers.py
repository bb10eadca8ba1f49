# SPDX-License-Identifier: Apache-2.0
"""User-mode Linux on processors with more registers than it was built for.

It gives the registers of its processes back to the kernel in a buffer of fixed size, and the kernel takes nothing but
the size that this processor has. With AMX that is four times as much, and every guest dies with its first process. A
copy of the program that names the right size works: what lies behind the buffer would be registers that are marked as
not in use, which the kernel does not look at.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
import struct
import subprocess

_GETREGSET, _SEIZE, _INTERRUPT = 0x4204, 0x4206, 0x4207
_EXTENDED = 0x202
_MOST_BYTES = 1 << 20
# movq $SIZE,-8(%rbp); mov $PTRACE_SETREGSET,%edi
_GIVE_BACK = re.compile(rb"\x48\xc7\x45\xf8(?P<size>.{4})\xbf\x05\x42\x00\x00", re.DOTALL)
_SIZE = struct.Struct("<I")


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@functools.cache
def size() -> int:
    """Return how many bytes the registers of this processor take, for the kernel; 0 where it does not say."""
    trace = ctypes.CDLL(None).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    buffer = ctypes.create_string_buffer(_MOST_BYTES)
    part = _Part(ctypes.addressof(buffer), _MOST_BYTES)
    with subprocess.Popen(["sleep", "60"]) as child:
        failed = trace(_SEIZE, child.pid, None, None) or trace(_INTERRUPT, child.pid, None, None)
        if not failed:
            os.waitpid(child.pid, 0)
            failed = trace(_GETREGSET, child.pid, _EXTENDED, ctypes.byref(part))
        child.kill()
    return 0 if failed else int(part.length)


def fitting(program: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """Return the program where it fits this processor, otherwise a copy in `directory` that does.

    Later kernels find out the size for themselves; one that does not name it is taken as it is.
    """
    copy = directory / program.name
    if copy.exists():
        return copy
    content = program.read_bytes()
    found = _GIVE_BACK.search(content)
    if found is None or size() <= _SIZE.unpack(found["size"])[0]:
        return program
    copy.write_bytes(content[: found.start("size")] + _SIZE.pack(size()) + content[found.end("size") :])
    copy.chmod(0o755)
    return copy
