# SPDX-License-Identifier: Apache-2.0
"""`abaca user`: who may log in with `auth_strategy = http_basic`. Passwords are asked for, never an argument."""

from __future__ import annotations

import sys

import click

from abaca import errors
from abaca.cli import shown
from abaca.cli.options import Given, configured
from abaca.http import users_file

ROLES = ("member",)


@click.group()
def user() -> None:
    """Say who may log in by name and password (auth_strategy = http_basic)."""


@user.command()
@click.argument("name")
@click.option("--project", "project_id", required=True, metavar="ID", help="The project that they work in.")
@click.option(
    "--role", "roles", multiple=True, default=ROLES, show_default=True, help="admin, member or reader; may be repeated."
)
@configured
def add(given: Given, *, name: str, project_id: str, roles: tuple[str, ...]) -> None:
    """Add a user; the password is asked for, or read from a pipe.

    A running API knows them a second later.
    """
    users_file.check(name, project_id, roles)
    file = given.load().settings.http_basic_auth_user_file
    with users_file.changing(file) as users:
        if name in users:
            raise errors.Conflict(f"There is a user {name} already; `abaca user passwd {name}` changes the password.")
        users[name] = users_file.User(name, users_file.hashed(_password()), project_id, roles)
    click.echo(f"{name} may log in as {', '.join(roles)} of project {project_id}.")


@user.command()
@click.argument("name")
@configured
def passwd(given: Given, *, name: str) -> None:
    """Give a user another password, asked for or read from a pipe."""
    with users_file.changing(given.load().settings.http_basic_auth_user_file) as users:
        known = _known(users, name)
        users[name] = known._replace(password=users_file.hashed(_password()))
    click.echo(f"{name} has another password.")


@user.command()
@click.argument("name")
@configured
def remove(given: Given, *, name: str) -> None:
    """Remove a user: within seconds nobody can log in as them. What they made stays."""
    with users_file.changing(given.load().settings.http_basic_auth_user_file) as users:
        _known(users, name)
        del users[name]
    click.echo(f"{name} cannot log in any more.")


@user.command(name="list")
@configured
@shown.listed
def list_(given: Given, *, output: shown.Output) -> None:
    """Show who may log in, with project and roles."""
    users = users_file.read(given.load().settings.http_basic_auth_user_file).by_name.values()
    rows = [{"name": one.name, "project_id": one.project_id, "roles": ", ".join(one.roles)} for one in users]
    shown.table(rows, output, brief=("name", "project_id", "roles"))


def _known(users: dict[str, users_file.User], name: str) -> users_file.User:
    if name not in users:
        raise errors.NotFound(resource="User", id=name)
    return users[name]


def _password() -> str:
    if sys.stdin.isatty():
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt="The same again"))
    else:
        password = sys.stdin.readline().rstrip("\n")
    users_file.check_password(password)
    return password
