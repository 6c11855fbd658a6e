"""Commands that query the node on this machine: `edgecore pods`, `logs`, `exec`, `attach`.

They talk to the running edgecore over its socket (`edged.sock` in the root directory), so they work without a cloud,
for every user with access to the socket. This module has only the arguments, because the command line is parsed before
anything else is loaded.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from modules.processes.edgecore.location import add_location

_HERE: Final = __name__


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add these commands to those of `edgecore`."""
    _add_pods(commands.add_parser("pods", help="list the pods of the node on this machine"))
    _add_logs(commands.add_parser("logs", help="print the log of a container of the node on this machine"))
    _add_exec(commands.add_parser("exec", help="run a command in a container of the node on this machine"))
    _add_attach(commands.add_parser("attach", help="take part in the streams of a container's process"))


def _add_pods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    _add_node(parser)
    parser.set_defaults(command=f"{_HERE}.pods:pods")


def _add_logs(parser: argparse.ArgumentParser) -> None:
    _add_container(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the container ends")
    parser.add_argument("-p", "--previous", action="store_true", help="of the container before the present one")
    parser.add_argument("--tail", type=_count, metavar="N", help="only the last N lines")
    parser.add_argument("--since", metavar="AGE|TIME", help="only what is younger: 10m, 1h30m, or 2026-11-20T05:42:16Z")
    parser.add_argument("--timestamps", action="store_true", help="each line with the time at which it was written")
    _add_node(parser)
    parser.set_defaults(command=f"{_HERE}.logs:logs")


def _add_exec(parser: argparse.ArgumentParser) -> None:
    _add_container(parser)
    _add_streams(parser)
    _add_node(parser)
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="after --: the command and its arguments")
    parser.set_defaults(command=f"{_HERE}.remote:execute")


def _add_attach(parser: argparse.ArgumentParser) -> None:
    _add_container(parser)
    _add_streams(parser)
    _add_node(parser)
    parser.set_defaults(command=f"{_HERE}.remote:attach")


def _add_container(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pod", type=_pod, metavar="[NAMESPACE/]POD", help="of the namespace default unless it is named")
    parser.add_argument("-c", "--container", default="", metavar="NAME", help="needed when the pod has several")


def _add_streams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on")
    parser.add_argument("-t", "--tty", action="store_true", help="with a terminal")


def _add_node(parser: argparse.ArgumentParser) -> None:
    add_location(parser)


def _pod(text: str) -> tuple[str, str]:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise argparse.ArgumentTypeError(f"{text!r} is no pod: NAMESPACE/POD is wanted")
    return namespace or "default", name


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)
