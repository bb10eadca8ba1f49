# SPDX-License-Identifier: Apache-2.0
"""`python -m abaca.api 2.99` writes the OpenAPI document of a microversion, without a number the newest."""

import sys

import msgspec

from abaca.api import doors, versions
from abaca.http import openapi

if __name__ == "__main__":
    number = sys.argv[1] if len(sys.argv) > 1 else versions.VERSIONS[-1][0]
    found = openapi.document(doors.shared_file_systems().table, versions.negotiate(number), versions.DESCRIBED)
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
