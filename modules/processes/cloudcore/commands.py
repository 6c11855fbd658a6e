"""The commands `cloudcore token` and `cloudcore metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.edgecore.exit_codes import ExitCode
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    parser = commands.add_parser("token", help="print a token with which nodes can join")
    parser.add_argument(
        "--lifetime", type=float, metavar="SECONDS", default=24 * 3600.0, help="of the token (default 24 hours)"
    )
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:token")
    parser = commands.add_parser("metrics", help="print what is counted, as Prometheus reads it")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:metrics")


def token(chosen: argparse.Namespace) -> int:
    """Run `cloudcore token`: print a new token, and nothing else."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - the command line is quick

    print_lines([ControlClient(chosen.socket).token(chosen.lifetime)])
    return ExitCode.OK


def metrics(chosen: argparse.Namespace) -> int:
    """Run `cloudcore metrics`: print the metrics."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    print_lines(ControlClient(chosen.socket).metrics().splitlines())
    return ExitCode.OK
