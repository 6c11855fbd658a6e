"""Both programs as services of systemd: real processes, and a socket in systemd's place."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import Process, processes_of, wait_until
from tests.support.notify_socket import NotifySocket
from tests.support.own_node import write_node

WATCHDOG = {"WATCHDOG_USEC": "1500000"}


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[NotifySocket]:
    made = NotifySocket(tmp_path / "notify")
    yield made
    made.close()


def arguments_of(program: str, directory: Path) -> list[str]:
    """Return the command line of a process that starts without anything else."""
    if program == "cloudcore":
        return ["run", "--root", str(directory), "--listen", "127.0.0.1:0"]
    write_node(directory)
    return ["run", "--root", str(directory)]


@pytest.mark.parametrize("program", ["edgecore", "cloudcore"])
def test_a_service(program: str, notify: NotifySocket, tmp_path: Path) -> None:
    """It is ready when it is, feeds the watchdog more than once, says that it stops, and ends with status 0."""
    with ExitStack() as stack:
        process = Process(
            f"modules.processes.{program}",
            arguments_of(program, tmp_path / "state"),
            tmp_path / "log",
            {"NOTIFY_SOCKET": str(notify.path), **WATCHDOG},
        )
        stack.callback(process.kill)
        wait_until(lambda: notify.has("READY=1") or not process.runs, "the service is ready")
        assert process.runs, process.tail()
        wait_until(lambda: notify.received().count("WATCHDOG=1") > 2, "the watchdog is fed")
        assert notify.has("STATUS=node n1: 0 of 0 pods" if program == "edgecore" else "STATUS=listening on ws://")
        process.signal(signal.SIGTERM)
        assert process.wait() == ExitCode.OK, process.tail()
        assert notify.received()[-2:] == ["STOPPING=1", "STATUS=stopping"]
    assert process.pid not in processes_of(notify.path)
    assert os.path.lexists(tmp_path / "state")
