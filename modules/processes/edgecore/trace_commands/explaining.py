"""Arguments of `edgecore trace explain`, `export` and `view`."""

import argparse
from pathlib import Path
from typing import Any, Final

from modules.processes.edgecore.location import add_location

COMMANDS: Final = "modules.tools.trace_tools.commands"
"""Module of the commands."""

_FILE = "a trace, a directory of its parts, or a capture as JSON lines"


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add these commands to `edgecore trace`."""
    _add_explain(commands.add_parser("explain", help="tell the story of one object, and what it waits for"))
    _add_export(commands.add_parser("export", help="write a trace for Perfetto, or as a sequence diagram"))
    _add_view(commands.add_parser("view", help="write a trace as one HTML page to look around in"))


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=f"{_FILE}; a device of this node needs none")
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        default="",
        help="for example pod, configmap, node, device; also KIND/NAME, as in pod/nginx",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="NAMESPACE/NAME, or NAME of a pod in the namespace default"
    )
    parser.add_argument("--all", action="store_true", help="also steps that repeat others")
    parser.add_argument("--json", action="store_true", help="for programs")
    where = add_location(parser)
    where.add_argument("--database", type=Path, metavar="FILE", help="of a device: an SQLite file")
    parser.set_defaults(command=f"{COMMANDS}:explain")


def _add_export(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group(required=True)
    forms.add_argument("--perfetto", action="store_true", help="JSON for ui.perfetto.dev and chrome://tracing")
    forms.add_argument("--mermaid", action="store_true", help="a sequence diagram in Mermaid's language")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many arrows (Mermaid; default 200)")
    _add_range(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    parser.set_defaults(command=f"{COMMANDS}:export")


def _add_view(parser: argparse.ArgumentParser) -> None:
    _add_range(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the trace's name with .html")
    parser.set_defaults(command=f"{COMMANDS}:view")


def _add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=_FILE)
    parser.add_argument(
        "--object", metavar="'KIND NAME'", help="only its story, for example 'pod default/nginx' or pod/nginx"
    )
    parser.add_argument("--from", type=float, dest="begin", metavar="SECONDS", help="since the trace began")
    parser.add_argument("--to", type=float, dest="end", metavar="SECONDS", help="since the trace began")
