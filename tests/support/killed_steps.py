"""Kills the processes of an upgrade at a chosen step: a change of names, a flush, a signal, a start of a program.

`python -m tests.support.killed_steps FILE WORDS…` is `edgecore WORDS…` whose steps are counted. The updater and the
launcher that it writes into an installation count theirs in the same file; what the versions do is no step. They import
this module, so it needs the standard library only.
"""

import functools
import mmap
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_LEFT, _DONE, _SWITCH, _HELD = range(4)
"""Numbers of 8 bytes in the file: steps until the kill (0: none), steps so far, the first step with which the
journal says that the version is being switched (0: none), and whether the first number waits for that one.
"""
_BYTES: Final = 32
_JOURNAL: Final = "journal.json"
_STAGED: Final = b'"phase": "staged"'
_REPOSITORY: Final = Path(__file__).parents[2]
_AFTER: Final[tuple[tuple[Any, str], ...]] = (
    *((os, name) for name in ("fsync", "mkdir", "rename", "replace", "symlink", "unlink")),
    (signal, "pidfd_send_signal"),
    (subprocess.Popen, "__init__"),
)
"""What a kill comes after."""
_COUNTING: Final = """
import sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from tests.support.killed_steps import Steps
Steps(Path({file!r})).count()
del sys.path[0]
"""


class Steps:
    """The steps of all processes that share a file.

    Args:
        file: with the numbers; it is made if there is none.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.exists():
            file.write_bytes(bytes(_BYTES))
        with file.open("r+b") as opened:
            self._shared = memoryview(mmap.mmap(opened.fileno(), _BYTES)).cast("q")

    def arm(self, after: int, *, switching: bool = False) -> None:
        """Kill whoever takes the step of this number from now on; 0: nobody.

        Args:
            after: the number.
            switching: whether steps count from the one with which the switch begins.
        """
        self._shared[_DONE] = self._shared[_SWITCH] = 0
        self._shared[_HELD] = switching
        self._shared[_LEFT] = after

    @property
    def done(self) -> int:
        """Steps since `arm`."""
        return self._shared[_DONE]

    @property
    def switch(self) -> int:
        """Number of the step since `arm` with which the switch has begun; 0: none has."""
        return self._shared[_SWITCH]

    def reached(self) -> bool:
        """Return whether the process was killed, or is just being killed."""
        return self._shared[_LEFT] < 0

    def step(self, *, begins_switch: bool = False) -> None:
        """Count a step of this process, which may be its last."""
        self._shared[_DONE] += 1
        if begins_switch and not self._shared[_SWITCH]:
            self._shared[_SWITCH], self._shared[_HELD] = self._shared[_DONE], 0
        if self._shared[_LEFT] > 0 and not self._shared[_HELD]:
            self._shared[_LEFT] -= 1
            if self._shared[_LEFT] == 0:
                self._shared[_LEFT] = -1
                os.kill(os.getpid(), signal.SIGKILL)

    def count(self) -> None:
        """Count the steps of this process from now on."""
        for owner, name in _AFTER:
            setattr(owner, name, self._counted(getattr(owner, name)))
        replaced = os.execv

        def execv(*arguments: Any) -> Any:
            self.step()
            replaced(*arguments)

        os.execv = execv

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            result = call(*arguments, **named)
            self.step(begins_switch=call.__name__ == "replace" and _says_more_than_staged(Path(arguments[1])))
            return result

        return counted

    def counting(self, updater: Path) -> Path:
        """Return a copy, beside the file, of the package of the updater, which counts the steps of who imports it."""
        made = self.file.with_name("counting_updater")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(updater, made)
        with (made / "__init__.py").open("a") as file:
            file.write(_COUNTING.format(repository=str(_REPOSITORY), file=str(self.file)))
        return made


def _says_more_than_staged(file: Path) -> bool:
    return file.name == _JOURNAL and _STAGED not in file.read_bytes()


def main(words: list[str]) -> int:
    """Run `edgecore` with these words after the file."""
    from modules.processes.edgecore.__main__ import main as edgecore  # noqa: PLC0415 - the updater's copy needs none of it
    from modules.processes.edgecore.upgrade import programs  # noqa: PLC0415 - the updater's copy needs none of it

    steps = Steps(Path(words[0]))
    programs.PACKAGE = steps.counting(programs.PACKAGE)  # type: ignore[misc]
    steps.count()
    sys.argv[1:] = words[1:]
    return edgecore()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
