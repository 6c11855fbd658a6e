"""Arguments of `edgecore devices`: list, get and history read the node's database, whether edgecore runs or not; set
and watch are done by the running edgecore, call by a mapper.
"""

import argparse
from pathlib import Path
from typing import Final

from modules.processes.edgecore.location import add_location

MAPPER_PORT: Final = 7777
"""Port of mapper-framework (`common.http_port` in a mapper's config.yaml)."""

_DEVICE: Final = "NAMESPACE/NAME, as `list` shows it: default/thermo"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `edgecore devices`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="list the devices, with their states")
    _read_database(listing, "list_devices")
    get = commands.add_parser(
        "get", help="show one device: expected and reported values, and what the cloud does not know"
    )
    get.add_argument("device", metavar="DEVICE", help=_DEVICE)
    _read_database(get, "get")
    history = commands.add_parser("history", help="show the last values, reported and expected")
    history.add_argument("device", metavar="DEVICE", help=_DEVICE)
    history.add_argument("property", nargs="?", default="", metavar="PROPERTY", help="only of this one (default: all)")
    _read_database(history, "history")
    setting = commands.add_parser("set", help="desire values on this node, until the cloud desires others")
    setting.add_argument("device", metavar="DEVICE", help=_DEVICE)
    setting.add_argument(
        "assignments", nargs="+", metavar="PROPERTY=VALUE", help="a value, or PROPERTY- for that of the cloud again"
    )
    _ask_agent(setting, "set_values")
    watch = commands.add_parser("watch", help="print changes as they happen")
    watch.add_argument("device", nargs="?", default="", metavar="DEVICE", help="only of this one (default: all)")
    _ask_agent(watch, "watch")
    call = commands.add_parser("call", help="call a method of a device at its mapper; without a method, list them")
    call.add_argument("device", metavar="DEVICE", help=_DEVICE)
    call.add_argument("method", nargs="?", default="", metavar="METHOD", help="one of the Device's spec.methods")
    call.add_argument(
        "arguments", nargs="*", default=[], metavar="PROPERTY=VALUE", help="VALUE for a method of a single property"
    )
    call.add_argument(
        "--port",
        type=int,
        default=MAPPER_PORT,
        metavar="N",
        help="port of the mapper on this machine (default %(default)s)",
    )
    _read_database(call, "call", "calls")


def _read_database(parser: argparse.ArgumentParser, function: str, module: str = "commands") -> None:
    _add_form(parser)
    where = add_location(parser)
    where.add_argument("--database", type=Path, metavar="FILE", help="an SQLite file, for instance one set aside")
    parser.set_defaults(command=f"{__name__}.{module}:{function}")


def _ask_agent(parser: argparse.ArgumentParser, function: str) -> None:
    _add_form(parser)
    add_location(parser)
    parser.set_defaults(command=f"{__name__}.live:{function}", database=None)


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON for programs, a change a line")
    form.add_argument("-o", "--output", dest="json", type=_json, metavar="json", help="likewise")


def _json(text: str) -> bool:
    if text != "json":
        raise argparse.ArgumentTypeError(f"{text!r} is not json")
    return True
