"""A process of the demo, with its output in a file."""

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from modules.processes.common.exit_codes import ExitCode
from modules.processes.demo.events import Deadline, Events

_STOP_SECONDS = 10.0


class Child:
    """A module of this project as a process in its own session, so that Ctrl-C reaches the demo only.

    Args:
        module: name for `python -m`.
        arguments: its command line.
        log: file for its output.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self.name = module.rpartition(".")[2]
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def failure(self) -> str:
        """Return how it has ended unexpectedly; empty while it runs."""
        status = self._process.poll()
        return "" if status is None else f"{self.name} has ended: {_described(status)}"

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, events: Events) -> None:
        """Wait until it has ended; kill it after ten seconds, or on a further signal to the demo."""
        deadline = Deadline(events, _STOP_SECONDS)
        while self._process.poll() is None and deadline.is_open():
            pass
        self._process.kill()
        self._process.wait()

    def tail(self, lines: int) -> list[str]:
        """Return the end of its output."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=lines)]


def _described(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    names = {int(code): code.name for code in ExitCode}
    return f"exit status {status}" + (f" ({names[status]})" if status in names else "")
