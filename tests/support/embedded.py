"""The process runtime in a separate process, so that tests can kill it as a machine's OOM killer would."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.process.driver import ProcessSettings
from tests.support.directories import new_directory
from tests.support.patience import PATIENCE

_READY = "ready"
_REPOSITORY = Path(__file__).parents[2]


class EmbeddedProcess:
    """Use as a context manager. On leaving, all its containers are killed and its directory is removed."""

    def __init__(self) -> None:
        self.directory = new_directory("em-")
        self.socket = self.directory / "e.sock"
        self.endpoint = f"unix://{self.socket}"
        self._root = self.directory / "root"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts the runtime (again) and returns when it serves."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.embedded", str(self._root), str(self.socket)],
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == _READY, f"the process runtime did not start: it said {said!r}"

    def kill(self) -> None:
        """Kills the runtime with SIGKILL. Containers go on; `start` finds them again."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE)
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        clock = RealClock()
        purge(self._root, clock, ProcessSettings())
        clock.close()
        shutil.rmtree(self.directory)


def _serve(root: Path, socket: Path) -> None:
    """Serves until the standard input is closed, so that it ends when its parent does."""
    clock = RealClock()
    runtime = CriServer(root, socket, clock, ProcessSettings())
    runtime.start()
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    runtime.stop()
    clock.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]))
