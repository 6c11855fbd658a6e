"""`edgecore uninstall`: removes the files and pods of a node, and nothing else.

`commands` is the command, `pods` ends the pods, `files` lists the files of the node. This module has only the
arguments, because the command line is parsed before anything else is loaded.
"""

from __future__ import annotations

import argparse
from typing import Any

from modules.processes.edgecore.location import add_location


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("uninstall", help="end the node's pods and remove what running has left")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--keep-data", action="store_true", help="end pods, unmount volumes, but remove no file")
    parser.add_argument("--stop", action="store_true", help="stop a running edgecore first, instead of refusing")
    add_location(parser)
    parser.set_defaults(command=f"{__name__}.commands:uninstall")
