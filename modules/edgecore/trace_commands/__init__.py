"""The commands of `edgecore trace`: what they are called and what they take.

Only their arguments are here, for the command line is parsed before anything else is loaded; each names the function
that does the work.
"""

import argparse

from modules.edgecore.trace_commands import explaining, recording, replaying


def add(parser: argparse.ArgumentParser) -> None:
    """Give `edgecore trace` its commands."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    recording.add(commands)
    explaining.add(commands)
    replaying.add(commands)
