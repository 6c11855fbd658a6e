"""The errors and tables of the commands that read the node's database."""

from collections.abc import Iterable, Sequence
from time import gmtime, strftime
from typing import Final

from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.reporting import reporting_errors_as

database_command: Final = reporting_errors_as(ExitCode.START_FAILED)
"""Report the errors of a command that reads the node's database."""


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their heads, in columns."""
    print_lines(aligned([heads, *rows]))


def seconds_of(milliseconds: int) -> str:
    """Return a time since the epoch up to its seconds, as `2026-11-21T20:00:00`."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(milliseconds / 1000))
