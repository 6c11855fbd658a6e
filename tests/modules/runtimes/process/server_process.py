"""A runtime in a process of its own, which tests can kill, run as somebody else, or take abilities from."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.modules.runtimes.process.node import Node
from tests.modules.runtimes.process.served import DIES_AT, READY
from tests.support.patience import PATIENCE

_REPOSITORY = Path(__file__).parents[4]


class RemoteNode(Node):
    """A node whose runtime is another process. Use as a context manager; nothing is left after it."""

    def __init__(self, directory: Path, interpreter: str = sys.executable, prefix: Sequence[str] = ()) -> None:
        """`prefix`: a command that executes the server, and what clears up after it, under other circumstances."""
        super().__init__(directory)
        self._here = not prefix
        self._command: list[str] = [*prefix, interpreter, "-m", self.module]
        self._process: subprocess.Popen[str] | None = None

    def serve(self) -> None:
        """Start the runtime (again) and connect."""
        self._process = self._start("serve")
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{READY}\n", "the runtime did not start"
        self.connect()

    def serve_until(self, step: str) -> None:
        """Start the runtime (again); it dies by SIGKILL at a step: `before` or `after`, a blank, module:name."""
        os.environ[DIES_AT] = step
        try:
            self.serve()
        finally:
            del os.environ[DIES_AT]

    def kill(self) -> None:
        """End the runtime by SIGKILL; its containers go on."""
        assert self._process is not None
        self.disconnect()
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def __enter__(self) -> Self:
        self.serve()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._here:
            self.purge()
        else:
            self._purge_there()
        self.clock.close()

    module = "tests.modules.runtimes.process.served"
    """The program that serves."""

    def _purge_there(self) -> None:
        with self._start("purge") as purge_process:
            try:
                errors = purge_process.communicate(timeout=PATIENCE)[1]
            finally:
                purge_process.kill()
        assert not errors, errors

    def _start(self, action: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, action, str(self.state), str(self.socket)],
            cwd=_REPOSITORY,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if action == "purge" else None,
            text=True,
        )
