"""Arguments of the commands of `edgecore trace`.

The command line is parsed before anything else is loaded; each command is given as the name of its function.
"""

import argparse
from pathlib import Path
from typing import Any, Final

from modules.cli.parser import VerbParser
from modules.processes.common.durations import seconds_option
from modules.processes.edgecore.location import add_location
from modules.processes.edgecore.trace_commands import replaying

COMMANDS: Final = "modules.processes.edgecore.trace.commands"
"""Module of the commands."""

_FILE = "a trace, a directory of its parts, or a capture as JSON lines"

SHOW: Final = "modules.processes.edgecore.trace_commands.show:show"
DUMP: Final = "modules.processes.edgecore.trace_commands.dump:dump"
"""Functions of the commands."""

KINDS: Final = ("messages", "timers", "cri", "events", "frames", "commits", "notes")
"""Values of `--only`."""


def _add_explaining(commands: "argparse._SubParsersAction[Any]") -> None:
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
        help="kind, such as pod, configmap, node, device; also KIND/NAME, as in pod/nginx",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="NAMESPACE/NAME, or NAME of a pod in the namespace default"
    )
    parser.add_argument("--all", action="store_true", help="also steps that repeat others")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    where = add_location(parser)
    where.add_argument("--database", type=Path, metavar="FILE", help="an SQLite file, to explain a device")
    parser.set_defaults(command=f"{COMMANDS}:explain")


def _add_export(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group(required=True)
    forms.add_argument("--perfetto", action="store_true", help="JSON for ui.perfetto.dev and chrome://tracing")
    forms.add_argument("--mermaid", action="store_true", help="a sequence diagram in Mermaid's language")
    parser.add_argument("--limit", type=int, metavar="N", help="the most arrows of a Mermaid diagram (default 200)")
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
    parser.add_argument("--from", type=seconds_option, dest="begin", metavar="DURATION", help="since the trace began")
    parser.add_argument("--to", type=seconds_option, dest="end", metavar="DURATION", help="since the trace began")


def _add_recording(commands: "argparse._SubParsersAction[Any]") -> None:
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


def add(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `edgecore trace`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_recording(commands)
    _add_explaining(commands)
    replaying.add(commands)
