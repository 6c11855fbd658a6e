"""A run of the tests that somebody ends with Ctrl-C leaves nothing on the machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import REPOSITORY
from tests.end_to_end.processes import wait_until
from tests.support.directories import VARIABLE
from tests.support.leftovers import clear
from tests.support.patience import PATIENCE
from tests.support.remains import remains

_TEST = """
import os, subprocess, threading
from pathlib import Path
from tests.support.patience import PATIENCE

def test_waits(tmp_path: Path) -> None:
    subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    if os.geteuid() == 0:
        volume = tmp_path / "volume"
        volume.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(volume)], check=False)
    Path(os.environ["BEGUN"]).write_text(os.environ["EDGECORE_TESTS"])
    threading.Event().wait()
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_ctrl_c_leaves_no_process_and_no_mount(processes: str, tmp_path: Path) -> None:
    """Also what a test has put into a session of its own; with a process of pytest-xdist, and without."""
    (tmp_path / "test_waits.py").write_text(_TEST)
    begun = tmp_path / "begun"
    environment = {**os.environ, "BEGUN": str(begun), "PYTHONPATH": str(REPOSITORY)}
    del environment[VARIABLE]
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", processes, "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_waits.py")]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True) as run:
        try:
            wait_until(begun.exists, "the test runs")
            wait_until(lambda: bool(begun.read_text()), "it has a mark")
            os.killpg(run.pid, signal.SIGINT)
            assert run.wait(PATIENCE) == pytest.ExitCode.INTERRUPTED
        finally:
            mark = begun.read_text() if begun.exists() else ""
            found = [each for each in remains(mark) if not each.startswith("file ")] if mark else []
            if mark:
                clear(mark, tmp_path)
    assert found == []
