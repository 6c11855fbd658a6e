"""Errors of edgecore's commands as a line on standard error and an exit status."""

import argparse
from collections.abc import Callable
from functools import wraps
from typing import Final

from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.reporting import Command, ReportedCommand, reporting
from modules.processes.edgecore.config import ConfigError


def reporting_errors_as(failed: ExitCode) -> Callable[[Command], ReportedCommand]:
    """Report errors of the configuration as `edgecore run` does, and others as one line and this exit status."""

    def wrapped(function: Command) -> ReportedCommand:
        reported = reporting("edgecore", failed)(function)

        @wraps(function)
        def called(chosen: argparse.Namespace) -> int:
            try:
                return reported(chosen)
            except ConfigError as error:
                return report_problems(error)

        return called

    return wrapped


reporting_errors: Final = reporting_errors_as(ExitCode.NOT_DONE)
"""Report the errors of a command that changes something."""


def report_problems(error: ConfigError) -> ExitCode:
    """Print the problems of a configuration, each on a line; return the exit status."""
    for problem in error.problems:
        print_remark(f"error: {problem.render(error.source)}")
    return ExitCode.CONFIGURATION


def print_remark(text: str) -> None:
    """Print an error or a remark about the result of a command on standard error."""
    print_error("edgecore", text)
