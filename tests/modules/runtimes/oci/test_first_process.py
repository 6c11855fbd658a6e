"""Which signals the first process of a container would notice, by its /proc/PID/status."""

import signal

import pytest

from modules.runtimes.oci.first_process import notices

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
    assert notices(status, signal.SIGTERM) is expected


def test_the_last_signal_has_a_bit() -> None:
    """SIGRTMAX is number 64."""
    assert notices(_STATUS.format(pids="9\t1", blocked=0, ignored=0, caught=1 << 63), 64)
    assert not notices(_STATUS.format(pids="9\t1", blocked=0, ignored=0, caught=1 << 62), 64)
