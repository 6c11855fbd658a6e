"""A container runtime's daemon of the test's own: started in a scratch directory, and ended with the test."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

SHUTDOWN_SECONDS: Final = 60


class PrivateDaemon:
    """A daemon between `start` and `stop`, or in a context."""

    log_path: Path
    _daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the daemon (again) and returns when it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the daemon and removes everything that it has made on this machine."""
        raise NotImplementedError

    def log_tail(self, lines: int = 30) -> str:
        """The end of the daemon's log."""
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Self:
        try:
            self.start()
            self._prepare()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        """Makes what a context finds."""

    def _begin(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with self.log_path.open("ab") as log:
            self._daemon = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
            )

    def _runs(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def _end(self, how: signal.Signals) -> None:
        if self._daemon is None:
            return
        self._daemon.send_signal(how)
        try:
            self._daemon.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
        self._daemon = None
