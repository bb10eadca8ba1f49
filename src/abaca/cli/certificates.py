# SPDX-License-Identifier: Apache-2.0
"""`abaca certificate`: what clients need to reach shares that are sealed by certificates, and what servers have."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import click

from abaca import app, errors
from abaca.cli.options import Given, configured
from abaca.drivers import contract, load

MOST_CHARACTERS = 65536


@click.group()
def certificate() -> None:
    """Issue, show and renew the certificates of sealed shares, on the host that has the authority's key."""


@certificate.command()
@click.argument("name")
@click.option("--backend", metavar="NAME", help="Whose authority signs; needed where several back ends have one.")
@configured
def issue(given: Given, *, name: str, backend: str | None) -> None:
    """Sign a client's request, read from a pipe, under NAME; the certificate goes to standard output.

    The client keeps its key: `openssl req -new -newkey rsa:2048 -nodes -keyout glusterfs.key -subj /CN=NAME` writes a
    request. Rules of access type cert then let NAME in.
    """
    request = sys.stdin.read(MOST_CHARACTERS + 1)
    if len(request) > MOST_CHARACTERS:
        raise errors.Invalid("That is too long for a signing request.")
    with _issuing(given, backend) as driver:
        click.echo(driver.issue(name, request).pem, nl=False)


@certificate.command()
@click.option("--backend", metavar="NAME", help="Whose authority it is; needed where several back ends have one.")
@configured
def authority(given: Given, *, backend: str | None) -> None:
    """Show the authority's certificate, which clients need beside their own."""
    with _issuing(given, backend) as driver:
        click.echo(driver.authority_pem(), nl=False)


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
    with _issuing(given, backend) as driver:
        for said in driver.renew(restarts=restart):
            click.echo(said)
    if not restart:
        click.echo("Volumes that run serve by the old ones: repeat it with --restart before these end.", err=True)


@contextlib.contextmanager
def _issuing(given: Given, name: str | None) -> Iterator[contract.IssuesCertificates]:
    """The driver of the back end that is meant, which has its authority; nothing of it is started.

    An authority that is not there is made by the worker alone: one made here would be another one, or not the worker's.
    """
    settings = given.load().settings
    found = [one for one in settings.backends if name in {None, one.name} and _issues(one.driver)]
    if not found and name:
        raise errors.NotFound(resource="Back end that issues certificates and is called", id=name)
    if len(found) != 1:
        names = ", ".join(one.name for one in found)
        raise errors.Invalid(f"Say --backend, one of: {names}." if found else "No back end here issues certificates.")
    driver = app.driver(settings, found[0])
    if not isinstance(driver, contract.IssuesCertificates):
        raise errors.Invalid(f"The back end {found[0].name} issues no certificates.")
    try:
        driver.authority_pem()
        yield driver
    finally:
        driver.stop()


def _issues(name: str) -> bool:
    try:
        return issubclass(load.driver_class(name), contract.IssuesCertificates)
    except ImportError as error:
        raise app.missing(error) from None
