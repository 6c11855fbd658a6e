"""Commands on the containers of a pod that edgecore and cloudcore both have: `logs`, `exec`, `attach`, `cp` and
`port-forward`, as kubectl's.

A command gets its `NodeClient` from the program: the edgecore of this machine, or cloudcore, which reaches all nodes.
This module has only the arguments, because the command line is parsed before anything else is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.processes.common.pod_commands.arguments import COMMANDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from modules.cli.parser import VerbParser
    from modules.processes.common.pod_commands.client import NodeClient

_HERE: Final = __name__


def add(
    commands: argparse._SubParsersAction[Any],
    program: str,
    connect_to: Callable[[argparse.Namespace], NodeClient],
    add_connection: Callable[[VerbParser], None],
) -> None:
    """Add the commands to a program.

    Args:
        commands: of a VerbParser.
        program: its name.
        connect_to: makes the client of the server of the containers from the arguments, when a command runs.
        add_connection: adds the program's own options to each command.
    """
    for parser in add_parsers(commands, _HERE, COMMANDS):
        add_connection(parser)
        parser.set_defaults(program=program, connect=connect_to)


def add_parsers(
    commands: argparse._SubParsersAction[Any],
    package: str,
    table: Mapping[str, tuple[str, str, Callable[[VerbParser], None]]],
) -> list[VerbParser]:
    """Add commands of a package, in the form of `arguments.COMMANDS`; return their parsers."""
    parsers: list[VerbParser] = []
    for name, (text, function, add_arguments) in table.items():
        parser: VerbParser = commands.add_parser(name, help=text, description=text, intermixed=True)
        add_arguments(parser)
        parser.set_defaults(command=f"{package}.{function}")
        parsers.append(parser)
    return parsers
