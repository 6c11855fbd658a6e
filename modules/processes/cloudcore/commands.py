"""The command `cloudcore metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("metrics", help="print what is counted, as Prometheus reads it")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:metrics")


def metrics(chosen: argparse.Namespace) -> int:
    """Run `cloudcore metrics`: print the metrics."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - the command line is quick

    print_lines(ControlClient(chosen.socket).metrics().splitlines())
    return ExitCode.OK
