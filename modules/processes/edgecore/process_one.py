"""Process 1 of a namespace of processes, where no init is: the kernel gives it what has lost its parent."""

import os
import signal

_FAILED = 128
"""Exit code of a child that a signal has ended, without the signal's number, as shells have it."""


def leave_process_one() -> None:
    """Return in a child if this is process 1, which only reaps, passes signals on, and ends with the child's exit code.

    A process that nobody reaps keeps its container from ending, and takes up a process id. The child is a process group
    of its own, so that a terminal's signal does not reach it twice.
    """
    if os.getpid() != 1:
        return
    every = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while True:
        number = signal.sigwait(every)
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                os._exit(code if code >= 0 else _FAILED - code)
