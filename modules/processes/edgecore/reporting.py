"""Errors of edgecore's commands as a line on standard error and an exit status."""

import argparse
from collections.abc import Callable
from functools import wraps

from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.reporting import reporting
from modules.processes.edgecore.config import ConfigError


def reporting_errors(function: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """Report errors of the configuration as `edgecore run` does, and others as one line."""
    reported = reporting("edgecore")(function)

    @wraps(function)
    def called(chosen: argparse.Namespace) -> int:
        try:
            return reported(chosen)
        except ConfigError as error:
            for problem in error.problems:
                print_error("edgecore", f"error: {problem.render(error.source)}")
            return ExitCode.CONFIGURATION

    return called
