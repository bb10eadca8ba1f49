# SPDX-License-Identifier: Apache-2.0
"""`python -m abaca` is `abaca`."""

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. HUP waits until the command has said what that means to it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    from abaca.cli.main import main

    main()


if __name__ == "__main__":
    main()
