"""`edgecore support-bundle`: one file for somebody who helps, without secrets.

`commands` is the command, `node` reads the parts that are about the node; what cloudcore has too is in
`modules.processes.common.support_bundle`. This module has only the arguments, because the command line is parsed before
anything else is loaded.
"""

from __future__ import annotations

import argparse
from typing import Any

from modules.processes.common.support_bundle import add_support_arguments
from modules.processes.edgecore.location import add_location


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("support-bundle", help="write what somebody who helps has to see, without secrets")
    add_support_arguments(parser)
    parser.add_argument(
        "--no-trace", action="store_true", help="without the flight recorder, which has pods with all their variables"
    )
    add_location(parser)
    parser.set_defaults(command=f"{__name__}.commands:support_bundle")
