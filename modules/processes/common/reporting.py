"""Errors of a command as a line on standard error and an exit status."""

import argparse
from collections.abc import Callable
from functools import wraps

from beehive.errors import BeehiveError
from beehive.files.advice import advice
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode

Command = Callable[["argparse.Namespace"], int | None]
"""Carries out a command; returns its exit status, None for OK."""
ReportedCommand = Callable[[argparse.Namespace], int]


def reporting(program: str, failed: ExitCode = ExitCode.NOT_DONE) -> Callable[[Command], ReportedCommand]:
    """Turn errors of a command into a line on standard error and an exit status, except a reader's end."""

    def wrapped(function: Command) -> ReportedCommand:
        @wraps(function)
        def called(chosen: argparse.Namespace) -> int:
            try:
                status = function(chosen)
            except BrokenPipeError:
                raise
            except (BeehiveError, AttemptError) as error:
                print_error(program, f"error: {error}")
                return failed
            except OSError as error:
                print_error(program, f"error: {error.filename or program}: {advice(error)}")
                return failed
            return ExitCode.OK if status is None else status

        return called

    return wrapped
