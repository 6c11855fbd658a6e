"""`edgecore backup` and `restore`: a node's state as one file.

`node` lists the files of a node, `commands` are the commands. `modules.processes.common.backup` writes and reads the
file, and puts restored files in the place of the present ones, for cloudcore, too.

This module has only the arguments, because the command line is parsed before anything else is loaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from modules.processes.common.backup.arguments import add_backup_arguments


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add `backup` and `restore`."""
    from modules.processes.edgecore.location import add_location  # noqa: PLC0415 - loads edgecore's configuration: not for cloudcore

    backup = commands.add_parser("backup", help="write the node's state to a file, also while it runs")
    add_backup_arguments(backup, "the node's private key")
    add_location(backup)
    backup.set_defaults(command=f"{__name__}.commands:backup")
    restore = commands.add_parser("restore", help="put the node's state back from a file")
    restore.add_argument("file", type=Path, metavar="FILE", help="written by `edgecore backup`")
    restore.add_argument("--force", action="store_true", help="also the backup of a node with another name or place")
    add_location(restore)
    restore.set_defaults(command=f"{__name__}.commands:restore")
