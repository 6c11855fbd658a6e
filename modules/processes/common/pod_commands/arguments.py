"""Arguments of `logs`, `exec`, `attach`, `cp` and `port-forward`, with kubectl's names. Imports nothing heavy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.cli.parser import VerbParser

_POD: Final = "[pod/]POD, or NAMESPACE/POD"
_MOST_LOGS: Final = 5


def _add_logs(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD [CONTAINER]", help=_POD)
    _add_namespace(parser)
    add_selector(parser)
    _add_container(parser)
    parser.flag("--all-containers", text="the logs of all containers of the pod")
    parser.flag("--prefix", text="each line with its pod and container")
    parser.flag("-f", "--follow", text="go on until the container ends")
    parser.flag("-p", "--previous", text="the log of the container before the present one")
    parser.flag("--timestamps", text="each line with its time")
    parser.flag("--ignore-errors", text="go on with the other containers where one has no log")
    parser.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines (-1: all; with -l: 10)")
    parser.add_argument("--since", metavar="AGE", help="only younger lines: 10m, 1h30m")
    parser.add_argument("--since-time", metavar="TIME", help="only younger lines: 2026-11-20T05:42:16Z")
    parser.add_argument("--limit-bytes", type=_positive, metavar="N", help="show N bytes of each log at most")
    parser.add_argument(
        "--max-log-requests",
        type=_positive,
        default=_MOST_LOGS,
        metavar="N",
        help=f"most logs to follow together (default: {_MOST_LOGS})",
    )


def _add_exec(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD -- COMMAND", help=_POD)
    _add_namespace(parser)
    _add_container(parser)
    _add_streams(parser)


def _add_attach(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD", help=_POD)
    _add_namespace(parser)
    _add_container(parser)
    _add_streams(parser)


def _add_cp(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="SOURCE TARGET", help="one of them [NAMESPACE/]POD:PATH")
    _add_namespace(parser)
    _add_container(parser)
    parser.flag("--no-preserve", text="do not keep modes and times of files copied from the pod")


def _add_port_forward(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD [LOCAL:]REMOTE…", help=f"{_POD}, and ports: 8080:80, 80, :80")
    _add_namespace(parser)
    parser.add_argument(
        "--address", default="localhost", metavar="IP,…", help="addresses to listen on (default: localhost)"
    )


def _add_namespace(parser: VerbParser) -> None:
    parser.add_argument(
        "-n", "--namespace", default="", metavar="NAMESPACE", help="namespace of the pod (default: default)"
    )


def add_selector(parser: VerbParser) -> None:
    """Add `-l`."""
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only pods with these labels: app=web")


def _add_container(parser: VerbParser) -> None:
    parser.add_argument("-c", "--container", default="", metavar="NAME", help="default: the pod's first")


def _add_streams(parser: VerbParser) -> None:
    parser.flag("-i", "--stdin", text="pass standard input on")
    parser.flag("-t", "--tty", text="give the command a terminal")
    parser.flag("-q", "--quiet", text="without remarks")


def _lines(text: str) -> int:
    if text == "-1":
        return -1
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


COMMANDS: Final[dict[str, tuple[str, str, Callable[[VerbParser], None]]]] = {
    "logs": ("print logs of containers", "logs:logs", _add_logs),
    "exec": ("run a command in a container", "remote:execute", _add_exec),
    "attach": ("take part in the streams of a container's process", "remote:attach", _add_attach),
    "cp": ("copy files and directories from and to a container", "cp:copy", _add_cp),
    "port-forward": ("forward local ports to ports of a pod", "port_forward:port_forward", _add_port_forward),
}
"""For each command: its help text, its function in this package, and the function that adds its arguments."""
