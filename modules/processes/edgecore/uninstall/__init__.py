"""`edgecore uninstall` and `leave`: remove the files and pods of a node, and nothing else.

`commands` is `uninstall`, `leave` also takes the node out of its cloud, `pods` ends the pods, `files` lists the files
of the node. This module has only the arguments, because the command line is parsed before anything else is loaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from modules.processes.edgecore.location import add_location


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add both commands."""
    parser = commands.add_parser("uninstall", help="end the node's pods and remove what running has left")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--keep-data", action="store_true", help="end pods, unmount volumes, but remove no file")
    parser.add_argument("--stop", action="store_true", help="stop a running edgecore first, instead of refusing")
    add_location(parser)
    parser.set_defaults(command=f"{__name__}.commands:uninstall")
    leaving = commands.add_parser("leave", help="take this node out of its cloud, and remove what running has left")
    leaving.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    leaving.add_argument("-y", "--yes", action="store_true", help="do not ask")
    leaving.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig of a user who may drain and delete the node; without it that is left to do in the cloud",
    )
    leaving.add_argument(
        "--context", default="", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    leaving.add_argument(
        "--force", action="store_true", help="also where pods are lost: no controller makes them again, or emptyDir"
    )
    leaving.add_argument(
        "--timeout", default="10m", metavar="DURATION", help="how long draining may take (default 10m)"
    )
    add_location(leaving)
    leaving.set_defaults(command=f"{__name__}.leave:leave", stop=True, keep_data=False)
