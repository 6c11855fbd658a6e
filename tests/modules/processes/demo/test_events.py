"""Signals, changes and the passing of time, in one queue.

What a signal does is tried in a process of its own: signals that end a process must never reach the one that runs the
tests with a handler that is not there yet, or no more.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest

from beehive.clock import RealClock
from modules.processes.demo.cluster import DemoError
from modules.processes.demo.demo import Demo
from modules.processes.demo.events import Deadline, Events, ExampleChanged, Tick
from tests.end_to_end.processes import REPOSITORY
from tests.support.patience import PATIENCE

_BEGIN = """
import signal
from beehive.clock import RealClock
from modules.processes.demo.events import SIGNALS, Deadline, Ended, Events
events = Events(RealClock())
"""


@pytest.fixture
def events() -> Iterator[Events]:
    """Events without handlers of signals."""
    with patch("modules.processes.demo.events.SIGNALS", ()):
        yield Events(RealClock())


def _alone(script: str) -> None:
    """Run the lines with events in a process of their own, which has to reach their end."""
    command = [sys.executable, "-c", f"{_BEGIN}{script}\nprint('end')"]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=False, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_a_signal_is_an_event() -> None:
    """Nothing is raised; the event says which signal it was, and it is counted."""
    _alone("""
for count, number in enumerate(SIGNALS, 1):
    signal.raise_signal(number)
    assert events.next(5) == Ended(number)
    assert events.asked_to_end == count
""")


def test_order_and_silence(events: Events) -> None:
    """Events come in order; without events, time passes."""
    events.put(ExampleChanged("Pod", {}, deleted=False))
    events.put(ExampleChanged("Pod", {}, deleted=True))
    assert [events.next(0), events.next(0), events.next(0)] == [
        ExampleChanged("Pod", {}, deleted=False),
        ExampleChanged("Pod", {}, deleted=True),
        Tick(),
    ]


def test_a_deadline_passes(events: Events) -> None:
    """It lasts as long as it should, with any other events."""
    started = events.clock.monotonic()
    deadline = Deadline(events, 0.1)
    while deadline.is_open():
        events.put(ExampleChanged("Pod", {}, deleted=False))
    assert events.clock.monotonic() - started >= 0.1


def test_a_deadline_passes_when_asked_again() -> None:
    """The request that is known when it begins does not count, the next one does."""
    _alone("""
signal.raise_signal(signal.SIGINT)
deadline = Deadline(events, 600)
assert deadline.is_open()
signal.raise_signal(signal.SIGINT)
assert not deadline.is_open()
""")


def test_a_signal_before_there_are_events_ends_the_process_without_a_traceback() -> None:
    """While the code is imported; afterwards also the trial of isolation is cleaned up."""
    _alone(
        "from modules.processes.demo import __main__, command\n"
        "found = []\n"
        "command.main = lambda: found.append(signal.getsignal(signal.SIGINT)) or 0\n"
        "assert __main__.main() == 0 and found == [signal.SIG_DFL], found\n"
    )
    _alone(
        "from modules.processes.demo import command\n"
        "[signal.signal(each, signal.SIG_DFL) for each in SIGNALS]\n"
        "found = []\n"
        "command._is_isolated = lambda _: found.extend(map(signal.getsignal, SIGNALS)) or False\n"
        "command.read_examples = lambda _: exit('the examples')\n"
        "try:\n    command.main([])\nexcept SystemExit: pass\n"
        "assert len(found) == 4 and signal.SIG_DFL not in found, found\n"
    )


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_signal_ends_a_start_that_it_has_broken_and_an_error_does_not(*, is_asked: bool) -> None:
    demo = cast("Any", Demo.__new__(Demo))
    demo._screen, demo._events, demo._cluster = Mock(), Mock(asked_to_end=is_asked), Mock(start=_fail)
    with nullcontext() if is_asked else pytest.raises(DemoError):
        assert not demo._start_cluster()


def _fail() -> None:
    raise DemoError("a process has ended")
