"""Errors of a command as a line on standard error and an exit status."""

import argparse
from collections.abc import Callable
from functools import wraps

from beehive.errors import BeehiveError
from beehive.files.advice import advice
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.printing.terminal import print_error
from modules.processes.common.exit_codes import ExitCode

_Command = Callable[["argparse.Namespace"], None]


def reporting(program: str) -> Callable[[_Command], Callable[[argparse.Namespace], int]]:
    """Turn errors of a command into a line on standard error and an exit status."""

    def wrapped(function: _Command) -> Callable[[argparse.Namespace], int]:
        @wraps(function)
        def called(chosen: argparse.Namespace) -> int:
            try:
                function(chosen)
            except (BeehiveError, AttemptError) as error:
                print_error(program, f"error: {error}")
                return ExitCode.NOT_DONE
            except OSError as error:
                print_error(program, f"error: {error.filename or program}: {advice(error)}")
                return ExitCode.NOT_DONE
            return ExitCode.OK

        return called

    return wrapped
