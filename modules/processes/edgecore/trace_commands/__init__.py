"""Arguments of the commands of `edgecore trace`.

The command line is parsed before anything else is loaded; each command is given as the name of its function.
"""

import argparse

from modules.processes.edgecore.trace_commands import explaining, recording, replaying


def add(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `edgecore trace`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    recording.add(commands)
    explaining.add(commands)
    replaying.add(commands)
