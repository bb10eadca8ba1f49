# SPDX-License-Identifier: Apache-2.0
"""A real Nova with a real Keystone."""

import contextlib

from lab import keystone, nova, runs


@contextlib.contextmanager
def cloud(most=1000):
    """A Keystone and a Nova that is in its catalog, without servers."""
    with (
        runs.Run() as run,
        nova.Nova(run, most) as compute,
        keystone.Keystone(run, compute_url=compute.url) as login,
    ):
        yield login, compute.start(login)
    assert run.leftovers() == []
