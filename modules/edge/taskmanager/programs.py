"""Programs that carry out actions of jobs, and outlive the edgecore that starts them."""

from collections.abc import Callable
from typing import Final

import msgspec

from beehive import Module
from modules.apimachinery.node_jobs import LONGEST_REASON, JobTargets
from modules.edge.taskmanager.actions import ActionEnd, Done

EVERY: Final = 2.0
"""Seconds between two checks of a program, or of its work."""
LONGEST_CHANGE: Final = 900.0
"""Seconds that a change which an edgecore before this one has begun is followed for, or the job's `timeoutSeconds` if
these are more; a probation takes up to 600.
"""
LOST: Final = "the change is unfinished, and its updater has not gone on: the next start of the node decides on it"


class ProgramEnd(msgspec.Struct, frozen=True):
    """End of a program."""

    status: int
    said: str
    """Its last words."""


def is_in_time(module: Module, spec: JobTargets) -> Callable[[], bool]:
    """Return a function that returns whether a change of a job is still to be followed, from now on."""
    ends = module.clock.monotonic() + max(LONGEST_CHANGE, float(spec.timeout_seconds or 0))
    return lambda: module.clock.monotonic() < ends


def run_program(
    module: Module, begin: Callable[[], None], end: Callable[[], ProgramEnd | None], done: Done, name: str
) -> None:
    """Start a program, and call `done` at its end.

    Args:
        module: on whose thread it is looked at.
        begin: starts the program. Raises OSError.
        end: returns how it has ended; None while it runs.
        done: takes the end.
        name: of the program, for messages.
    """
    try:
        begin()
    except OSError as error:
        done(ActionEnd(f"`{name}` does not start: {error}"[:LONGEST_REASON]))
        return

    def poll() -> None:
        found = end()
        if found is None:
            module.after(EVERY, poll)
        else:
            done(ActionEnd("" if found.status == 0 else found.said or f"exit status {found.status}"))

    poll()
