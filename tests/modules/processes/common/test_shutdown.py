"""Signals of a process: the first ends it cleanly, a second immediately."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.patience import PATIENCE

_PROGRAM = """
import signal, sys
from modules.processes.common import shutdown as module
from tests.support.patience import PATIENCE

module._SAME_SIGNAL = float(sys.argv[1])

def fail():
    print("asked", flush=True)
    raise RuntimeError

shutdown = module.Shutdown(at_once=130)
shutdown.on(signal.SIGUSR1, fail)
print("ready", flush=True)
print(shutdown.wait().name, flush=True)
sys.stdin.read()
"""
"""Says which signal came first, then goes on until its input ends, as a stop that takes long. What SIGUSR1 asks for
fails. The argument is for how many seconds the same signal counts as the first."""


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for its signals; by default signals of a minute come immediately."""
    command = [sys.executable, "-c", _PROGRAM, str(getattr(request, "param", 60.0))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
        started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """It is reported, and the process goes on to its clean end."""
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == f"{number.name}\n"
    assert process.returncode == 0


def test_a_second_signal_right_after_the_first(process: subprocess.Popen[str]) -> None:
    """Even during the first one's handling, it ends the process immediately."""
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130


def test_the_same_signal_twice_in_a_moment_counts_once(process: subprocess.Popen[str]) -> None:
    """As `timeout` does it, to a process and to its group."""
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "SIGTERM\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.parametrize("process", [0.0], indirect=True)
def test_the_same_signal_later_ends_it_immediately(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "SIGTERM\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130


def test_another_signal_whose_function_fails_does_not_keep_the_process_from_ending(
    process: subprocess.Popen[str],
) -> None:
    """The thread that hears signals goes on."""
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == "SIGTERM\n"
    assert process.returncode == 0
