"""One of the processes of the demo, with its output in a file."""

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from modules.demo.events import Events, Patience
from modules.edgecore.exit_codes import ExitCode

_STOP_SECONDS = 10.0


class Child:
    """A module of this project that runs as a process of its own, in its own session: Ctrl-C is the demo's alone.

    Args:
        module: as `python -m` takes it.
        arguments: its command line.
        log: file for all it prints.
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

    def trouble(self) -> str:
        """How it has ended although nobody asked it to; empty while it runs."""
        status = self._process.poll()
        return "" if status is None else f"{self.name} has ended: {_described(status)}"

    def ask_to_end(self) -> None:
        """SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, events: Events) -> None:
        """Waits until it has ended; kills it when that takes too long, or when somebody asks to end once more."""
        patience = Patience(events, _STOP_SECONDS)
        while self._process.poll() is None and patience.lasts():
            pass
        self._process.kill()
        self._process.wait()

    def tail(self, lines: int) -> list[str]:
        """The end of what it printed."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            return [line.rstrip("\n") for line in deque(log, maxlen=lines)]


def _described(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    names = {int(code): code.name for code in ExitCode}
    return f"exit status {status}" + (f" ({names[status]})" if status in names else "")
