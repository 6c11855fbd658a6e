"""edgecore as process 1."""

import subprocess
import sys
from typing import Final

import pytest

from tests.support.patience import PATIENCE

_NODE: Final = """\
import os, signal, sys
from pathlib import Path
from modules.processes.edgecore.process_one import leave_process_one
leave_process_one()
assert os.getpid() == os.getpgid(0) != 1
below, above = os.pipe()
if (middle := os.fork()) == 0:
    if orphan := os.fork():
        os.write(above, b"%d" % orphan)
    os._exit(0)
os.waitpid(middle, 0)
orphan = Path("/proc", os.read(below, 9).decode())
while orphan.exists():
    os.sched_yield()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(1, signal.SIGTERM)
signal.pause()
"""
"""A node that waits until what has lost its parent is reaped, and then ends itself, or is asked to by process 1."""


@pytest.mark.parametrize(("how", "code"), [("asked", 7), ("killed", 137)])
def test_process_1_reaps_and_ends_as_the_node_does(how: str, code: int) -> None:
    """As in a container without an init: what is not reaped would keep its own container from ending."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run([*apart, "true"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        pytest.skip(f"no namespaces for ordinary users: {done.stderr.strip()}")
    done = subprocess.run(
        [*apart, "--kill-child", sys.executable, "-c", _NODE, how],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")
