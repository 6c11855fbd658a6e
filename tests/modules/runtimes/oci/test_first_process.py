"""Which signals the first process of a container would notice, by its /proc/PID/status."""

import os
import re
import signal
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from modules.runtimes.oci.first_process import FirstProcess, notices
from tests.support.failing import Attempt, Failing, census, fail_at_each_call

_STATUS = "Name:\tsh\nNSpid:\t{pids}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
_TERM = 1 << (signal.SIGTERM - 1)
_OTHER = 1 << (signal.SIGCHLD - 1)


@pytest.mark.parametrize(
    ("pids", "blocked", "ignored", "caught", "expected"),
    [
        ("4711\t1", 0, 0, 0, False),
        ("4711\t1", _OTHER, _OTHER, _OTHER, False),
        ("4711\t1", 0, 0, _TERM | _OTHER, True),
        ("4711\t1", 0, _TERM, 0, True),
        ("4711\t1", _TERM, 0, 0, True),
        ("4711\t2", 0, 0, 0, True),
        ("4711", 0, 0, 0, True),
    ],
)
def test_signals_that_are_noticed(pids: str, blocked: int, ignored: int, caught: int, expected: bool) -> None:
    """A first process of a namespace needs a handler, or a decision; every other process dies by default."""
    status = _STATUS.format(pids=pids, blocked=blocked, ignored=ignored, caught=caught)
    assert notices(status.encode(), signal.SIGTERM) is expected


def test_the_last_signal_has_a_bit() -> None:
    """SIGRTMAX is number 64."""
    assert notices(_STATUS.format(pids="9\t1", blocked=0, ignored=0, caught=1 << 63).encode(), 64)
    assert not notices(_STATUS.format(pids="9\t1", blocked=0, ignored=0, caught=1 << 62).encode(), 64)


def test_this_process_notices_by_default() -> None:
    """The kernel's own text is understood; without a text the process has ended."""
    status = Path("/proc/self/status").read_bytes()
    blocked, caught = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGINT)
    as_first = re.sub(rb"\nNSpid:[^\n]*", b"\nNSpid:\t4711\t1", status)
    assert notices(as_first, signal.SIGINT) is (signal.SIGINT in blocked or caught is not signal.SIG_DFL)
    assert notices(b"", signal.SIGINT)


@pytest.mark.parametrize(("grace", "most"), [(0.5, 16), (2.0, 16), (30.0, 36), (3600.0, 3606)])
def test_looks_at_a_process_without_a_handler_are_few(monkeypatch: pytest.MonkeyPatch, grace: float, most: int) -> None:
    """A look costs 0.1 ms of processor time, and a pod with a grace period of 30 s had 127 of them. A handler that is
    set late is still seen in time to end the program: before a sixth more of the period, and a second, is over.
    """
    waits: list[float] = []

    class NeverEnded(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(timeout)
            return False

    monkeypatch.setattr("modules.runtimes.oci.first_process.notices", lambda _status, _number: False)
    first = FirstProcess.of(os.getpid(), "no group", os.getppid())
    assert first is not None
    try:
        first.await_notice(signal.SIGTERM, NeverEnded(), grace)
    finally:
        first.close()
    assert sum(waits) == pytest.approx(grace)
    assert len(waits) <= most
    assert max(waits) <= min(grace / 6, 1.0)


def test_a_process_that_ends_during_a_look_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.runtimes.oci.first_process.notices", Mock(side_effect=ProcessLookupError))
    first, ended = FirstProcess.of(os.getpid(), "no group", os.getppid()), Mock()
    assert first is not None
    first.await_notice(signal.SIGTERM, ended, 1.0)
    first.close()
    ended.wait.assert_not_called()


def test_a_status_that_is_longer_than_most_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def notices(status: bytes, _number: int) -> bool:
        seen.append(status)
        return True

    monkeypatch.setattr("modules.runtimes.oci.first_process._USUAL_STATUS", 100)
    monkeypatch.setattr("modules.runtimes.oci.first_process.notices", notices)
    first = FirstProcess.of(os.getpid(), "no group", os.getppid())
    assert first is not None
    try:
        first.await_notice(signal.SIGTERM, threading.Event(), 1.0)
    finally:
        first.close()
    assert b"SigCgt" in seen[0]


def test_a_process_that_cannot_be_looked_at_is_not_held() -> None:
    """At the start of an edgecore it is tried again; the descriptor would stay."""

    def make(failing: Failing) -> Attempt:
        found: list[FirstProcess] = []

        def run() -> None:
            with failing.kernel_calls():
                first = FirstProcess.of(os.getpid(), "no group", os.getppid())
            assert first is not None
            found.append(first)

        return Attempt(run, undo=lambda: found.pop().close())

    assert fail_at_each_call(make) >= 2
    before = census()
    assert FirstProcess.of(os.getpid(), "no group", os.getpid()) is None
    assert not census().more_than(before)
