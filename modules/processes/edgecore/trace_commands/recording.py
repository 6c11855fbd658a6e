"""Arguments of `edgecore trace show` and `dump`."""

import argparse
from pathlib import Path
from typing import Any, Final

from modules.processes.edgecore.location import add_location
from modules.tools.kubectl.parser import VerbParser

SHOW: Final = "modules.processes.edgecore.trace_commands.show:show"
DUMP: Final = "modules.processes.edgecore.trace_commands.dump:dump"
"""Functions of the commands."""

KINDS: Final = ("messages", "timers", "cri", "events", "frames", "commits", "notes")
"""Values of `--only`."""


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add these commands to `edgecore trace`."""
    _add_show(commands.add_parser("show", help="print a trace, one line for each message, call, timer and commit"))
    _add_dump(commands.add_parser("dump", help="have a running edgecore write its flight recorder"))


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a trace, a directory of its parts, or a capture")
    parser.add_argument("--module", metavar="NAME", help="sent by or to it; also cloud, runtime, store")
    parser.add_argument("--resource", metavar="TEXT", help="about what holds TEXT: default/pod/nginx, or default/pod/*")
    parser.add_argument("--operation", metavar="NAME", help="insert, response, …; a CRI method; commit")
    parser.add_argument("--id", metavar="ID", help="message with that id (or its beginning), and answers to it")
    when = "seconds since the trace began, HH:MM:SS[.mmm], or a date and time (UTC)"
    parser.add_argument("--from", dest="begin", metavar="TIME", help=when)
    parser.add_argument("--to", dest="end", metavar="TIME", help="likewise")
    parser.add_argument("--only", choices=KINDS, action="append", help="only these; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with the whole contents")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    parser.set_defaults(command=SHOW)


def _add_dump(parser: VerbParser) -> None:
    parser.hint = "`-o FILE` copies the trace to a file"
    add_location(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also copy it there")
    parser.set_defaults(command=DUMP)
