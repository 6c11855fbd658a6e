"""The errors and tables of the commands that read the node's database."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from time import gmtime, strftime

from beehive.errors import BeehiveError
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config import ConfigError


def database_command(function: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """Turn errors of a command into a line on standard error and an exit status."""

    @wraps(function)
    def called(chosen: argparse.Namespace) -> int:
        try:
            function(chosen)
        except ConfigError as error:
            for problem in error.problems:
                print_error("edgecore", f"error: {problem.render(error.source)}")
            return ExitCode.CONFIGURATION
        except BeehiveError as error:
            print_error("edgecore", f"error: {error}")
            return ExitCode.START_FAILED
        return ExitCode.OK

    return called


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their heads, in columns."""
    print_lines(aligned([heads, *rows]))


def seconds_of(milliseconds: int) -> str:
    """Return a time since the epoch up to its seconds, as `2026-11-21T20:00:00`."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(milliseconds / 1000))
