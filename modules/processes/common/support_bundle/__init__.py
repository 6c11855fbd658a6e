"""The support bundle of edgecore and of cloudcore: what somebody else needs to see of a machine, without secrets.

`cleaning` removes values from objects, `machine` reads the parts that both programs have, `bundle` gathers the parts
and writes the file. This module has only the arguments, because the command line is parsed before anything else is
loaded.
"""

import argparse
from pathlib import Path


def add_support_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `support-bundle` has in both programs."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write, a tar.gz that its owner alone can read (default: a new one in the current directory)",
    )
    parser.add_argument(
        "--since", default="24h", metavar="DURATION", help="how far back logs go, such as 30m or 24h (default 24h)"
    )
    parser.add_argument("--no-logs", action="store_true", help="without the logs of the service and of the kernel")
