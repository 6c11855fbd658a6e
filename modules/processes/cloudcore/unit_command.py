"""The command `cloudcore unit`: prints a systemd unit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from modules.processes.cloudcore.paths import DATABASE, SOCKET, CloudPaths, add_socket_options, paths_of
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.systemd_unit import Unit, account_of, add_user_option, program, text_of

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("unit", help="print a systemd unit that runs this cloud")
    add_socket_options(parser)
    add_user_option(parser)
    parser.add_argument(
        "run_options", nargs="*", metavar="-- RUN-OPTION", help="of `cloudcore run`, such as: -- --tls --dns-name cloud"
    )
    parser.set_defaults(command=print_unit)


def print_unit(chosen: argparse.Namespace) -> int:
    """Print the unit."""
    unit = Unit(
        name="cloudcore",
        description="cloudcore, a cloud of edge nodes",
        command=[*program("cloudcore"), "run", *_options(paths_of(chosen)), *chosen.run_options],
        after="",
        user=chosen.user,
        account=account_of(user=chosen.user),
    )
    sys.stdout.write(text_of(unit))
    return ExitCode.OK


def _options(paths: CloudPaths) -> list[str]:
    """Return the options that lead to these paths."""
    socket, database = paths.root / SOCKET, str(paths.root / DATABASE)
    return [
        "--root",
        str(paths.root),
        *(["--socket", str(paths.socket)] if paths.socket != socket else []),
        *(["--database", paths.database] if paths.database != database else []),
    ]
