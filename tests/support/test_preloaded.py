"""Processes with imported modules end, print and are signalled like those of `python -m`."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import REPOSITORY
from tests.support.preloaded import Preloaded


@pytest.fixture
def server() -> Iterator[Preloaded]:
    """A server of its own."""
    made = Preloaded(["json.tool"], REPOSITORY)
    yield made
    made.close()


def test_a_process_runs_and_ends(server: Preloaded, tmp_path: Path) -> None:
    """With its arguments and its environment, in a session of its own; the second one knows nothing of the first."""
    (tmp_path / "given").write_text("[1]")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for argument, status, text in ((str(tmp_path / "given"), 0, "[\n    1\n]\n"), ("--none", 2, "unrecognized")):
        with (tmp_path / "out").open("wb") as output:
            streams = {1: output.fileno(), 2: output.fileno()}
            started = server.start("json.tool", [argument], streams, environment)
        assert started.wait(60) == status
        assert started.poll() == status
        assert text in (tmp_path / "out").read_text()


def test_a_process_is_waited_for_and_killed(server: Preloaded, tmp_path: Path) -> None:
    """It waits for its input, a silent pipe."""
    os.mkfifo(tmp_path / "pipe")
    kept = os.open(tmp_path / "pipe", os.O_RDWR)
    with (tmp_path / "out").open("wb") as output:
        started = server.start("json.tool", [str(tmp_path / "pipe")], {1: output.fileno()}, os.environ)
    assert started.poll() is None
    assert os.getsid(started.pid) == started.pid
    shown = Path(f"/proc/{started.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert shown[-3:] == [b"-m", b"json.tool", os.fsencode(tmp_path / "pipe")]
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.01)
    started.kill()
    assert started.wait(60) == -signal.SIGKILL
    started.kill()
    os.close(kept)


def test_streams(server: Preloaded, tmp_path: Path) -> None:
    """Its input is what it is given, and errors go where output does not."""
    reading, writing = os.pipe()
    os.write(writing, b"[1]")
    os.close(writing)
    with (tmp_path / "out").open("wb") as output, (tmp_path / "errors").open("wb") as errors:
        streams = {0: reading, 1: output.fileno(), 2: errors.fileno()}
        assert server.start("json.tool", [], streams, os.environ).wait(60) == 0
        assert server.start("json.tool", ["--none"], streams, os.environ).wait(60) == 2
    os.close(reading)
    assert (tmp_path / "out").read_text() == "[\n    1\n]\n"
    assert "unrecognized" in (tmp_path / "errors").read_text()
