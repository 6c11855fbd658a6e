"""The command `edgecore doctor`: reports each problem of this node in a line, with a remedy.

Facts are gathered concurrently, each within a few seconds (`gathering`), as plain data (`facts`); pure functions judge
them (`checks`, `link_checks`). Nothing is changed on the node or in the cloud: no session is opened, no file made, no
lock kept.

This module has only the arguments, because the command line is parsed before anything else is loaded.
"""

import argparse

from modules.processes.edgecore.location import add_location


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `edgecore doctor`."""
    add_location(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(command="modules.processes.edgecore.doctor.commands:doctor")
