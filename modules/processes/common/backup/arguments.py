"""The arguments of `backup`, apart from the command, because the command line is parsed before anything is loaded."""

import argparse
from pathlib import Path


def add_backup_arguments(parser: argparse.ArgumentParser, keys: str) -> None:
    """Add the arguments that every `backup` has."""
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write, a tar.gz that its owner alone can read")
    parser.add_argument("--exclude-keys", action="store_true", help=f"without {keys}")
