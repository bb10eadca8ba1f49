#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Python environment from a hashed lock: lab/environment.sh FOLDER LOCK
set -euo pipefail
folder=$1 lock=$2

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Abaca needs Python 3.11 or newer as python3; Debian 12 has it: apt-get install python3 python3-venv" >&2
    exit 3
fi
if ! [ -x "$folder/bin/python" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
            echo "Installing the Debian package that makes Python environments: python3-venv"
            # in turn with other clones, as lab/packages.sh
            mkdir -p /var/cache/abaca-lab
            exec {turn}>/var/cache/abaca-lab/turn
            flock "$turn"
            apt-get -qq update </dev/null
            DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends python3-venv </dev/null >/dev/null
            exec {turn}>&-
        else
            echo "This Debian package is missing and only root can install it: apt-get install python3-venv" >&2
            exit 3
        fi
    fi
    echo "Making the Python environment $folder"
    python3 -m venv "$folder"
fi
if ! [ -x .venv/bin/uv ]; then
    .venv/bin/python -m pip install -q --require-hashes -r requirements/uv.txt
fi
echo "Installing the packages of $lock into $folder"
.venv/bin/uv pip install -q --compile-bytecode --python "$folder/bin/python" --require-hashes -r "$lock"
