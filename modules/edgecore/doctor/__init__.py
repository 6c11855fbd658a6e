"""`edgecore doctor`: what is wrong with this node, in a line for each thing, with what to do about it.

Facts are gathered first, at the same time and each within a few seconds (`gathering`), into plain data (`facts`); what
they mean is decided by pure functions (`checks`, `link_checks`). Nothing is changed, on the node or in the cloud: no
session is opened, no file made, no lock kept.

Only the arguments are here, for the command line is parsed before anything else is loaded.
"""

import argparse
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """Give `edgecore doctor` its arguments."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--config", type=Path, metavar="FILE", help="of the node (default: KubeEdge's, or the user's own node)"
    )
    where.add_argument("--root", type=Path, metavar="DIR", help="of a node without a file, as for `run`")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(command="modules.edgecore.doctor.commands:doctor")
