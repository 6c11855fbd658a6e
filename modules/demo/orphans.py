"""Ending what the processes of the demo leave behind.

Containers outlive edgecore on purpose, so at the end of the demo they have to be found and ended, whatever became of
edgecore and of its records. The kernel knows them best: the demo's process is made the one to which its orphaned
descendants are handed (PR_SET_CHILD_SUBREAPER), so whatever was started is below it until it is gone.
"""

import os
import signal
from contextlib import suppress

from edged.embedded.shepherd import kernel
from edged.embedded.shepherd.procfs import all_processes, descendants
from edged.embedded.shepherd.protocol import Pid
from modules.demo.events import Events, Patience

_TERMINATE_SECONDS = 3.0
_KILL_SECONDS = 5.0


def adopt() -> None:
    """From now on orphaned descendants become children of this process."""
    kernel.adopt_orphans()


def reap(except_for: frozenset[int] = frozenset()) -> None:
    """Takes leave of adopted children that have ended, so that they do not stay zombies.

    Args:
        except_for: children that somebody else waits for; when one of them has ended, the others can wait.
    """
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in except_for:
                return
            os.waitpid(ended.si_pid, 0)


def end_all(events: Events) -> list[Pid]:
    """Ends every descendant: SIGTERM, some seconds to obey, then SIGKILL. Gives those that are there even then.

    When somebody asks to end once more meanwhile, SIGKILL comes at once.
    """
    _signal_all(signal.SIGTERM)
    patience = Patience(events, _TERMINATE_SECONDS)
    while _living() and patience.lasts():
        pass
    patience = Patience(events, _KILL_SECONDS)
    while _living() and patience.lasts():
        _signal_all(signal.SIGKILL)
    return _living()


def _living() -> list[Pid]:
    reap()
    return [process.pid for process in descendants(Pid(os.getpid()), all_processes())]


def _signal_all(number: signal.Signals) -> None:
    for pid in _living():
        with suppress(ProcessLookupError):
            os.kill(pid, number)
