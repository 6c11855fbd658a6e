"""Arguments of `pods`, `metrics` and `top`, with kubectl's names. Imports nothing heavy."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from modules.processes.common.pod_commands.arguments import add_selector

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.tools.kubectl.parser import VerbParser

_LIVE: Final = "modules.processes.edgecore.top.command:live"
"""The function of `top --live`."""
_SHORTEST: Final = 0.2


def _add_pods(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="POD", help="only these")
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="only of this one (default: all)")
    parser.flag("-A", "--all-namespaces", text="all namespaces, which is the default")
    add_selector(parser)
    parser.add_argument(
        "-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table", help="default: table"
    )
    parser.flag("--no-headers", text="without the line of titles")


def _add_top(parser: VerbParser) -> None:
    parser.add_argument("words", nargs="*", metavar="pods|nodes [NAME]", help="what to measure")
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="namespace (default: default)")
    parser.flag("-A", "--all-namespaces", text="all namespaces")
    add_selector(parser)
    parser.flag("--containers", text="of each container")
    parser.add_argument("--sort-by", choices=("cpu", "memory"), default="", help="the greatest first")
    parser.flag("--sum", text="with a line of sums")
    parser.flag("--no-headers", text="without the line of titles")
    parser.add_argument(
        "--live",
        dest="command",
        action="store_const",
        const=_LIVE,
        default=argparse.SUPPRESS,
        help="the whole node on the screen, with keys to look closer",
    )
    parser.add_argument(
        "--interval", type=_seconds, default=2.0, metavar="SECONDS", help="of --live, between two looks (default 2)"
    )


def _seconds(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) is None or float(text) < _SHORTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {_SHORTEST} on")
    return float(text)


COMMANDS: Final[dict[str, tuple[str, str, Callable[[VerbParser], None]]]] = {
    "pods": ("list the pods of the node on this machine", "pods:pods", _add_pods),
    "metrics": ("print what is counted, as Prometheus reads it", "metrics:metrics", lambda _: None),
    "top": ("show the CPU and memory that the node and its pods use", "top:top", _add_top),
}
"""For each command: what it does, its function in this package, and what adds its arguments."""
