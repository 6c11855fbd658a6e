"""Arguments of `edgecore services` and `edgecore resolve`; the running edgecore answers both."""

from __future__ import annotations

import argparse
from typing import Any, Final

from modules.processes.edgecore.location import add_location

_COMMANDS: Final = "modules.processes.edgecore.mesh_commands.commands"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    services = commands.add_parser(
        "services", help="list the Services that this node reaches, and which of their endpoints it uses"
    )
    services.add_argument(
        "service", nargs="?", default="", metavar="NAME", help="one, with its endpoints (default: all Services)"
    )
    _add_common(services, "only of this namespace (default: all; with NAME: default)", "services")
    resolve = commands.add_parser("resolve", help="show what this node's name server answers a pod, and from where")
    resolve.add_argument("name", metavar="NAME", help="such as web, web.default, example.com, or an address")
    resolve.add_argument("--type", default="", metavar="TYPE", help="type of records, such as SRV (default: addresses)")
    resolve.add_argument("-v", "--verbose", action="store_true", help="show each query, also those without an answer")
    _add_common(resolve, "namespace of the pod that would ask (default: default)", "resolve")


def _add_common(parser: argparse.ArgumentParser, namespace: str, function: str) -> None:
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help=namespace)
    parser.add_argument("-o", "--output", choices=("json",), metavar="json", help="print JSON for programs")
    add_location(parser)
    parser.set_defaults(command=f"{_COMMANDS}:{function}")
