"""The process runtime as a program that serves until its standard input is closed, or removes all that it has made.

It imports no client and no pytest: dozens of tests start it, and it starts twice as fast without them.
"""

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from beehive.clock import Clock, RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.process.driver import ProcessSettings

READY: Final = "ready"
DIES_AT: Final = "EDGECORE_TEST_DIES"
"""Environment variable: the step where the program dies by SIGKILL, `before` or `after`, a blank, module:name."""


def serve(new_runtime: Callable[[Path, Path, Clock], CriServer]) -> None:
    """Serve with the state directory and the socket of the command line."""
    if step := os.environ.get(DIES_AT):
        _die_at(step)
    runtime = new_runtime(Path(sys.argv[2]), Path(sys.argv[3]), RealClock())
    runtime.start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    runtime.stop()


def _new_runtime(state: Path, socket: Path, clock: Clock) -> CriServer:
    return CriServer(state, socket, clock, ProcessSettings())


def function_of(step: str) -> tuple[Any, str, Any]:
    """Returns what has the function of a step, the name that it has there, and the function. Raises AttributeError."""
    module, _, name = step.partition(" ")[2].partition(":")
    holder: Any = import_module(module)
    *path, last = name.split(".")
    for each in path:
        holder = getattr(holder, each)
    return holder, last, getattr(holder, last)


def _die_at(step: str) -> None:
    """Replace a function by one that kills this process before or after the original."""
    when = step.partition(" ")[0]
    holder, last, original = function_of(step)

    def replaced(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named) if when == "after" else None
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(holder, last, replaced)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(_new_runtime)
    else:
        purge(Path(sys.argv[2]), RealClock(), ProcessSettings())
