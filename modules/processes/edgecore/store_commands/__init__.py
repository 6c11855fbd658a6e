"""Arguments of the commands of `edgecore store`, most of which print the node's database whether edgecore runs or not.

The command line is parsed before anything else is loaded; each command is given as the name of its function.
"""

import argparse
from pathlib import Path
from typing import Final

from modules.processes.edgecore.location import add_location

_COMMANDS: Final = "modules.processes.edgecore.store_commands.commands"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `edgecore store`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="list the stored objects")
    listing.add_argument("kind", nargs="?", default="", metavar="KIND", help="pod, configmap, secret, … (default: all)")
    listing.add_argument("-n", "--namespace", default="", help="only of this namespace")
    _finish(listing, "list_objects")
    get = commands.add_parser("get", help="print one object, as YAML")
    _add_key(get)
    _finish(get, "get", secrets=True)
    history = commands.add_parser("history", help="show the last changes, with time, cause and message")
    history.add_argument("key", nargs="?", default="", metavar="KEY", help="key of one object (default: all)")
    _finish(history, "history")
    diff = commands.add_parser("diff", help="print one change, as a unified diff of YAML")
    _add_key(diff)
    diff.add_argument("old", nargs="?", type=int, metavar="OLD", help="number of a change, as `history` shows it")
    diff.add_argument(
        "new", nargs="?", type=int, metavar="NEW", help="a later one (default: the last two that are kept)"
    )
    _finish(diff, "diff", json=False)
    migrate = commands.add_parser("migrate", help="give a copy of a database the schema of this edgecore")
    migrate.add_argument("file", type=Path, metavar="FILE", help="an SQLite file that no edgecore uses; it is changed")
    migrate.set_defaults(command=f"{_COMMANDS}:migrate")


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="NAMESPACE/KIND/NAME, as `list` shows it: default/pod/web")


def _finish(parser: argparse.ArgumentParser, function: str, *, json: bool = True, secrets: bool = False) -> None:
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON for programs")
    if secrets:
        parser.add_argument("--show-secrets", action="store_true", help="show secrets as they are, instead of marks")
    where = add_location(parser)
    where.add_argument(
        "--database", type=Path, metavar="FILE", help="an SQLite file, for instance one that was set aside"
    )
    parser.set_defaults(command=f"{_COMMANDS}:{function}")
