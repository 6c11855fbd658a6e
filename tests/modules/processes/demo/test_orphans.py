"""Whatever was started below the demo's process is ended with it."""

import subprocess
import sys

_PROGRAM = """
import subprocess, sys
from beehive.clock import RealClock
from modules.processes.demo import cluster
from modules.processes.demo.events import Events

cluster.adopt_orphans()
script = sys.argv[1]
# setsid and a parent that ends at once: what every daemon does to get away
daemon = f"setsid sh -c '{script}' >/dev/null & echo $!"
starter = subprocess.run(["sh", "-c", daemon], stdout=subprocess.PIPE, text=True)
print(starter.stdout.strip(), cluster.end_descendants(Events(RealClock())), sep=";")
"""


def test_a_daemon_is_ended() -> None:
    """A process in its own session, whose parent has ended, gets SIGTERM and is gone."""
    pid, left = _run("exec sleep 600")
    assert left == "[]"
    assert not _exists(pid)


def test_a_process_that_ignores_the_request_is_killed() -> None:
    """SIGKILL ends what SIGTERM did not, together with its children."""
    pid, left = _run('trap "" TERM; while true; do sleep 600; done')
    assert left == "[]"
    assert not _exists(pid)


def _run(script: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, script], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    )
    pid, left = done.stdout.strip().split(";")
    return int(pid), left


def _exists(pid: int) -> bool:
    return subprocess.run(["kill", "-0", str(pid)], check=False, capture_output=True).returncode == 0
