"""Runs several functions concurrently, within a deadline.

Each has a daemon thread outside of the actor model. There is no bus in a command, every part blocks in system calls,
and a part that never returns (a name server, a hanging socket) must not delay the others or the end of the process;
late parts are left out.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from beehive import Clock

Parts = dict[str, Callable[[], Any]]


def at_once(parts: Parts, seconds: float, clock: Clock, name: str = "part") -> dict[str, Any]:
    """Run the parts concurrently and return their results by name, without late ones. An exception of a part
    is raised.

    Args:
        parts: the functions.
        seconds: limit for all of them.
        clock: that counts it.
        name: of the threads, which is followed by that of the part.
    """
    done: SimpleQueue[tuple[str, Any, BaseException | None]] = SimpleQueue()
    for each, part in parts.items():
        Thread(target=_run, args=(each, part, done), name=f"{name}/{each}", daemon=True).start()
    deadline = clock.monotonic() + seconds
    found: dict[str, Any] = {}
    while len(found) < len(parts):
        try:
            each, result, error = done.get(timeout=max(0.0, deadline - clock.monotonic()))
        except Empty:
            break
        if error is not None:
            raise error
        found[each] = result
    return found


def _run(name: str, part: Callable[[], Any], done: "SimpleQueue[tuple[str, Any, BaseException | None]]") -> None:
    try:
        done.put((name, part(), None))
    except BaseException as error:  # noqa: BLE001 - raised again by `at_once`
        done.put((name, None, error))
