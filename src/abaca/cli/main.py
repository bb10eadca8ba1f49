# SPDX-License-Identifier: Apache-2.0
"""The command line. A command's module is imported when that command is given, so each starts as fast as it can."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from abaca import __version__, errors
from abaca.cli import exits

# name: (module, attribute, what `abaca --help` says)
COMMANDS = {
    "run": ("abaca.cli.programs", "run", "Run everything on this host: the API, a worker, SQLite."),
    "api": ("abaca.cli.programs", "api", "Run the API."),
    "worker": ("abaca.cli.programs", "worker", "Run the worker of this host's back ends."),
    "db": ("abaca.cli.databases", "db", "Upgrade the database."),
    "operation": ("abaca.cli.operations", "operation", "See and steer what is going on."),
    "service": ("abaca.cli.services", "service", "See the services of all hosts, and remove old ones."),
    "backend": ("abaca.cli.backends", "backend", "See the back ends."),
    "event": ("abaca.cli.events", "event", "See what is told, and who does not get it."),
    "server": ("abaca.cli.servers", "server", "Register the machines that shares are attached to."),
    "attachment": ("abaca.cli.attachments", "attachment", "Attach shares to servers, and see how that stands."),
    "share-network": (
        "abaca.cli.share_networks",
        "share_network",
        "Change the subnets of share networks that serve.",
    ),
    "cluster": ("abaca.cli.clusters", "cluster", "Have shares on all nodes of a cluster, and see how that stands."),
    "share-server": ("abaca.cli.share_servers", "share_server", "See what share servers can, and set it."),
    "network-allocation": (
        "abaca.cli.network_allocations",
        "network_allocation",
        "Find addresses that share servers have left behind.",
    ),
    "certificate": (
        "abaca.cli.certificates",
        "certificate",
        "Issue, show and renew the certificates of sealed shares.",
    ),
    "user": ("abaca.cli.users", "user", "Say who may log in by name and password."),
    "config": ("abaca.cli.configuration", "config", "Check the configuration."),
}


# Nobody's mistake but the disk's: a line says as much as a traceback would.
_OF_THE_HOST = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS))

# HUP was kept waiting at the start (`abaca.__main__`). It ends all others.
SAY_WHAT_HUP_MEANS = {"run", "api", "worker"}


class Commands(click.Group):
    """Looks commands up in COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, whose module is imported now."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in SAY_WHAT_HUP_MEANS:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The same; the error for an unknown command names those that look like it."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, _, sentence) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="abaca")
def cli() -> None:
    """Abaca: shares, where they are mounted, and who may use them."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, or `arguments`; an error that the operator can mend is one line."""
    try:
        status = cli.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as end:
        status = end.exit_code
    except click.Abort:
        status = exits.EX_FAILED
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except errors.ConfigError as error:
        print(f"abaca: {error.message}", file=sys.stderr)
        status = exits.EX_CONFIG
    except errors.AbacaError as error:
        print(f"abaca: {error.message}", file=sys.stderr)
        status = exits.EX_FAILED
    except OSError as error:
        if error.errno not in _OF_THE_HOST:
            raise
        print(f"abaca: {error.filename or 'The state directory'} cannot be written: {error.strerror}", file=sys.stderr)
        status = exits.EX_CONFIG
    sys.exit(status if isinstance(status, int) else 0)
