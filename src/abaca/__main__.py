# SPDX-License-Identifier: Apache-2.0
"""`python -m abaca` is `abaca`."""

from abaca.cli.main import main

if __name__ == "__main__":
    main()
