"""Ends the processes that the demo's processes leave behind.

Containers outlive edgecore on purpose, so the demo has to find and end them, whatever happened to edgecore and its
records. The demo's process is made the parent of its orphaned descendants (PR_SET_CHILD_SUBREAPER), so the kernel's
process tree has all of them.
"""

import os
import signal
from contextlib import suppress

from modules.processes.demo.events import Deadline, Events
from modules.runtimes.shim import kernel
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import Pid

_TERMINATE_SECONDS = 3.0
_KILL_SECONDS = 5.0


def adopt() -> None:
    """Make this process the parent of its orphaned descendants."""
    kernel.adopt_orphans()


def reap(except_for: frozenset[int] = frozenset()) -> None:
    """Reap adopted children that have ended, so that they do not remain as zombies.

    Args:
        except_for: children with another waiter; if one of them has ended, the rest is left for the next call.
    """
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in except_for:
                return
            os.waitpid(ended.si_pid, 0)


def end_all(events: Events) -> list[Pid]:
    """End every descendant: SIGTERM, some seconds to comply, then SIGKILL. Return those that remain.

    A further signal to the demo leads to SIGKILL immediately.
    """
    _signal_all(signal.SIGTERM)
    deadline = Deadline(events, _TERMINATE_SECONDS)
    while _living() and deadline.is_open():
        pass
    deadline = Deadline(events, _KILL_SECONDS)
    while _living() and deadline.is_open():
        _signal_all(signal.SIGKILL)
    return _living()


def _living() -> list[Pid]:
    reap()
    return [process.pid for process in descendants(Pid(os.getpid()), all_processes())]


def _signal_all(number: signal.Signals) -> None:
    for pid in _living():
        with suppress(ProcessLookupError):
            os.kill(pid, number)
