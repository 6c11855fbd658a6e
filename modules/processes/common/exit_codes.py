"""Exit statuses of `edgecore`: a service manager can tell permanent failures from temporary ones.

0, 1 and 2 mean what they do for Unix and argparse; the others are edgecore's own and never change their meaning.
`docs/doctor.md` repeats this for readers, and a test compares the two.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of every `edgecore` command."""

    OK = 0
    """The command succeeded; for `run`: stopped by SIGTERM or SIGINT, containers left running."""

    INTERNAL_ERROR = 1
    """An unexpected error; the traceback is on standard error. Worth a bug report."""

    USAGE = 2
    """The command line is wrong; the message states which part."""

    CONFIGURATION = 3
    """The configuration file is missing, unreadable or wrong. A restart without a change is useless."""

    START_FAILED = 4
    """A module or its resource (root directory, database, port) was not available in time. A restart may help."""

    STOP_TIMED_OUT = 5
    """A module did not stop within its deadline; the process ended nevertheless."""

    VIOLATED = 6
    """`simulate`: an invariant was violated; standard output has the seed and how to reproduce it."""

    DIFFERENT = 7
    """`replay --check`: today's code differs from the recording; the differences are on standard output."""

    NOT_JOINED = 8
    """`join`: no certificate was available, or a file could not be written; the message gives the reason."""

    REFUSED = 9
    """`pods`, `logs`, `exec`, `attach`, `cp`, `port-forward`, `top`, `devices set`, `devices watch`, `devices
    call`, `services`, `resolve`: the node does not answer or refuses, or knows no such Service or name, and the message
    gives the reason. Otherwise `exec` and `attach` end with the command's own status.
    """

    UNWELL = 10
    """`doctor`: a check has failed; its line has a remedy."""

    NOT_DONE = 11
    """`backup`, `restore`, `support-bundle`, `uninstall`, `leave`, `upgrade`, `rollback`, `restart`: refused or
    failed; the message gives the reason and all changes. `cloudcore nodes`: the API server does not answer.
    """

    NOT_INSTALLED = 12
    """`simulate`, `replay`, `trace record-fixture`, `top --live`: an extra is missing; the message names it."""

    INTERRUPTED = 130
    """A second SIGTERM or SIGINT came during the stop: ended immediately."""
