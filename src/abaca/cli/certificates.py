# SPDX-License-Identifier: Apache-2.0
"""`abaca certificate`: what clients need to reach shares that are sealed by certificates."""

from __future__ import annotations

import sys

import click

from abaca import app, errors
from abaca.cli.options import Given, configured
from abaca.drivers import contract
from abaca.drivers.glusterfs import Glusterfs
from abaca.drivers.wrappers import Wrapped

MOST_CHARACTERS = 65536


@click.group()
def certificate() -> None:
    """Sign what clients of sealed shares need, on the host that has the authority's key."""


@certificate.command()
@click.argument("name")
@click.option("--backend", metavar="NAME", help="Whose authority signs; needed where several back ends have one.")
@configured
def issue(given: Given, *, name: str, backend: str | None) -> None:
    """Sign a client's request, read from a pipe, under NAME; the certificate goes to standard output.

    The client keeps its key: `openssl req -new -newkey rsa:2048 -nodes -keyout glusterfs.key -subj /CN=NAME` writes a
    request. Rules of access type cert then let NAME in.
    """
    driver = _sealing(given, backend)
    request = sys.stdin.read(MOST_CHARACTERS + 1)
    if len(request) > MOST_CHARACTERS:
        raise errors.Invalid("That is too long for a signing request.")
    click.echo(driver.issue(name, request).pem, nl=False)


@certificate.command()
@click.option("--backend", metavar="NAME", help="Whose authority it is; needed where several back ends have one.")
@configured
def authority(given: Given, *, backend: str | None) -> None:
    """Show the authority's certificate, which clients need beside their own."""
    driver = _sealing(given, backend)
    click.echo(driver.authority.pem, nl=False)


@certificate.command()
@click.option("--backend", metavar="NAME", help="Whose nodes get them; needed where several back ends have some.")
@click.option("--restart", is_flag=True, help="Start the volumes of shares, and NFS-Ganesha, anew too.")
@configured
def renew(given: Given, *, backend: str | None, restart: bool) -> None:
    """Bring a new certificate to each node, whatever is left of the old one.

    What runs goes on with what it has read until it is started anew: with --restart each volume is away for some
    seconds, one after the other. Programs that use it get errors meanwhile, and need not mount it again. It may be
    repeated.
    """
    driver = _sealing(given, backend)
    driver.log_in()
    try:
        for said in driver.renew(restarts=restart):
            click.echo(said)
    finally:
        driver.stop()
    if not restart:
        click.echo("Volumes that run serve by the old ones: repeat it with --restart before these end.", err=True)


def _sealing(given: Given, name: str | None) -> Glusterfs:
    """The driver of the back end that is meant, with its authority; nothing of it is started.

    An authority that is not there is made by the worker alone: one made here would be another one, or not the worker's.
    """
    settings = given.load().settings
    found = [one for one in settings.backends if one.driver == "glusterfs" and name in {None, one.name}]
    if not found:
        what = f"called {name} " if name else ""
        raise errors.NotFound(resource=f"Back end {what}with the driver", id="glusterfs")
    if len(found) > 1:
        raise errors.Invalid(f"Say --backend, one of: {', '.join(one.name for one in found)}.")
    wrapped = app.driver(settings, found[0])
    driver = wrapped.inner if isinstance(wrapped, Wrapped) else wrapped
    if not isinstance(driver, Glusterfs):
        raise errors.Invalid(f"The back end {found[0].name} has a driver of that name from another package.")
    try:
        driver.authority.check()
    except contract.Refused as refused:
        if driver.options.authority_certificate:
            raise
        where = "run this on the host whose worker serves the back end, once that has started"
        raise errors.Invalid(f"{refused.message}; {where}.") from refused
    return driver
