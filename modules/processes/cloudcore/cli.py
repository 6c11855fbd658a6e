"""The command line of cloudcore: `run`, the commands for administrators, and kubectl's verbs against a running
cloudcore.

Each command is given as `module:function` and imported when it runs.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from beehive.errors import BeehiveError
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.cli.parser import VerbParser, make_only
from modules.kubectl.cli import VERBS, add_answers, add_help, add_verbs, arranged
from modules.processes.cloudcore import (
    backup_commands,
    changes_command,
    devices_command,
    doctor_command,
    kubeconfig_command,
    load_command,
    nodes_command,
    page_command,
    revocation_commands,
    rollout_commands,
    run_command,
    support_command,
    token_command,
)
from modules.processes.cloudcore.paths import DATABASE, SOCKET, CloudPaths, add_socket_options, paths_of, settle
from modules.processes.common import completion, pod_commands, version_command, without_lab
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.output import forget_output
from modules.processes.common.systemd_unit import Unit, account_of, add_user_option, program, text_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Sequence

    from modules.cli.rest import RestClient
    from modules.processes.cloudcore.pod_client import PodClient

_ANSWERS: Final = {
    "etcd-snapshot": "`cloudcore backup` keeps everything in one file",
    "init": "`cloudcore run` starts it, and needs no preparation",
    "server": "`cloudcore run` starts it",
    "gettoken": "`cloudcore token` prints one",
}
"""For words of other tools, what to do instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    if completion.is_requested():
        completion.answer(command_line(None)[0], _values())
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser, commands = command_line(words)
    chosen = parser.parse_args(arranged(parser, commands, words or ["--help"]))
    try:
        settle(chosen)
        status = int(_imported(chosen.command)(chosen))
        sys.stdout.flush()
    except BeehiveError as error:
        print_error("cloudcore", str(error))
        return ExitCode.INTERNAL_ERROR
    except BrokenPipeError:
        forget_output()
        return ExitCode.OK
    return status


def _add_metrics(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("metrics", help="print the metrics, in Prometheus' format")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:metrics")


def metrics(chosen: argparse.Namespace) -> int:
    """Run `cloudcore metrics`: print the metrics."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - the command line is quick

    print_lines(ControlClient(chosen.socket).metrics().splitlines())
    return ExitCode.OK


def _add_unit(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("unit", help="print a systemd unit that runs this cloud")
    add_socket_options(parser)
    add_user_option(parser)
    parser.add_argument(
        "run_options",
        nargs="*",
        metavar="-- RUN-OPTION",
        help="options of `cloudcore run`, such as: -- --tls --dns-name cloud",
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


def command_line(words: Collection[str] | None = None) -> tuple[VerbParser, argparse._SubParsersAction[Any]]:
    """Return the parser and its commands; only those in `words` are made, or all of them for None."""
    parser = VerbParser(
        prog="cloudcore",
        description="A cloud for edge nodes: by itself, or before the API server of a Kubernetes cluster.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    make_only(commands, words)
    run_command.add(commands)
    add_verbs(commands, "cloudcore", connect, VERBS, add_connection=add_socket_options, words=words)
    pod_commands.add(commands, "cloudcore", connect_to_pods, add_socket_options)
    token_command.add(commands)
    revocation_commands.add(commands)
    _add_metrics(commands)
    nodes_command.add(commands)
    rollout_commands.add(commands)
    changes_command.add(commands)
    devices_command.add(commands)
    page_command.add(commands)
    doctor_command.add(commands)
    support_command.add(commands)
    load_command.add(commands)
    backup_commands.add(commands)
    _add_unit(commands)
    kubeconfig_command.add(commands)
    completion.add(parser, commands)
    version_command.add(parser, commands)
    add_help(parser, commands)
    add_answers(commands, "cloudcore", _ANSWERS)
    return parser, commands


def _imported(command: Any) -> Callable[[argparse.Namespace], int]:
    """Return the function of a command, which may be given as `module:function`."""
    module, colon, name = command.partition(":") if isinstance(command, str) else ("", "", "")
    try:
        function: Callable[[argparse.Namespace], int] = getattr(import_module(module), name) if colon else command
    except ModuleNotFoundError as error:
        if not without_lab.is_why(error):
            raise
        return partial(without_lab.refuse, "cloudcore")
    return function


def _values() -> dict[str, completion.Completer]:
    """Return the values that a shell completes."""
    from modules.processes.cloudcore.paths import paths_of  # noqa: PLC0415 - only while completing
    from modules.processes.common.completion_values import Values  # noqa: PLC0415

    return Values(lambda chosen: paths_of(chosen).socket).completers()


def connect(chosen: argparse.Namespace) -> RestClient:
    """Return the client of the cloudcore that the options select."""
    from modules.cli.rest import RestClient  # noqa: PLC0415 - only for the verbs

    return RestClient(chosen.socket, "is `cloudcore run` running, with this --root?")


def connect_to_pods(chosen: argparse.Namespace) -> PodClient:
    """Return the client of the pods of the cloudcore that the options select."""
    from modules.processes.cloudcore.pod_client import PodClient  # noqa: PLC0415 - only for logs, exec and their like

    return PodClient(chosen.socket)
