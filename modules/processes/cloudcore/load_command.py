"""The command `cloudcore load`: its options; the lab has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.durations import seconds_option

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("load", help="put the load of many stand-in nodes on this cloud, to size it")
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="stand-in nodes (default %(default)s)")
    parser.add_argument("--pods", type=int, default=10, metavar="N", help="pods of each node (default %(default)s)")
    parser.add_argument(
        "--every",
        type=seconds_option,
        default=60.0,
        metavar="DURATION",
        help="how often the status of each pod changes (default 60s)",
    )
    parser.add_argument(
        "--cut", type=seconds_option, default=0.0, metavar="DURATION", help="break the link of a node so often"
    )
    parser.add_argument(
        "--silent", type=int, default=0, metavar="N", help="let N nodes say nothing once they are there (default 0)"
    )
    parser.add_argument(
        "--for", dest="seconds", type=seconds_option, metavar="DURATION", help="end after it (default: at Ctrl-C)"
    )
    parser.add_argument(
        "--cloud",
        default="127.0.0.1:10000",
        metavar="HOST:PORT",
        help="where nodes connect, by a name in the cloud's certificate (default %(default)s)",
    )
    parser.add_argument(
        "--http-server", default="", metavar="URL", help="where nodes get certificates (default https://HOST:10002)"
    )
    parser.add_argument("--remove", action="store_true", help="remove what a load has left that was killed")
    add_socket_options(parser)
    parser.set_defaults(command="modules.lab.load.commands:load")
