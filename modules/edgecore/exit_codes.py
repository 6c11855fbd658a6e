"""Exit status of `edgecore`, so that a service manager can tell "do not start me again" from "try again".

0, 1 and 2 are the ordinary ones of Unix and argparse. From 3 on they are ours; they never change their
meaning. `docs/exit-codes.md` says the same for readers, and a test compares the two.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of every `edgecore` command."""

    OK = 0
    """The command did what it was asked; for `run`: stopped by SIGTERM or SIGINT, containers left running."""

    INTERNAL_ERROR = 1
    """An error that the program did not foresee; the traceback is on standard error. Worth a bug report."""

    USAGE = 2
    """The command line is wrong; the message says which part."""

    CONFIGURATION = 3
    """The configuration file is missing, unreadable or wrong. Starting again without a change is useless."""

    START_FAILED = 4
    """A module or its resource (root directory, database, port) could not be had in time. Starting again may
    help."""

    STOP_TIMED_OUT = 5
    """Asked to stop, but a module did not end within its deadline; the process ended all the same."""

    VIOLATED = 6
    """`simulate`: something that must hold did not; the seed and how to see it again are on standard output."""

    DIFFERENT = 7
    """`replay --check`: today's code does something otherwise than was recorded; the differences are on standard
    output."""

    NOT_JOINED = 8
    """`join`: no certificate was to be had, or a file could not be written; the message says why."""

    REFUSED = 9
    """`pods`, `logs`, `exec`, `attach`: the node does not answer or refuses, and the message says why. `exec` and
    `attach` otherwise end with the command's own status."""

    UNWELL = 10
    """`doctor`: a check has failed; its line says what to do."""

    INTERRUPTED = 130
    """A second SIGTERM or SIGINT came during the stop: ended at once, without waiting for anything."""
