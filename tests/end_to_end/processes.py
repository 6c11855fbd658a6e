"""A process of the system under test, with its output in a file, and waiting for what it does."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, ClassVar, Final

from beehive.clock import RealClock
from tests.support.patience import PATIENCE
from tests.support.preloaded import PreloadedProcess, preloaded

REPOSITORY: Final = Path(__file__).parents[2]

_clock: Final = RealClock()
_never: Final = threading.Event()
_PROGRAMS: Final = {
    "modules.processes.cloudcore": ("cli", "process", "embedded_api_server"),
    "modules.processes.edgecore": ("cli", "process"),
}
_PRELOADS: Final = {module: tuple(f"{module}.{part}" for part in parts) for module, parts in _PROGRAMS.items()}
"""What each program imports in most cases."""
_LOOKS: Final = 1000
_CRASH: Final = "Fatal Python error"
_UNFORESEEN: Final = rb"^(?:Assertion|Attribute|Index|Key|Name|Recursion|Type|UnboundLocal)Error(?::[^\n]*)?$"
_FAILED: Final = re.compile(rb"module \S+ failed \([^\n]*|" + _UNFORESEEN, re.MULTILINE)
"""What a process says of a module that it starts again (`beehive.supervisor`), and the end of a traceback of an error
that no input and no machine may cause.
"""


def wait_until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns when something is true that nobody announces (a file, a process); the error says what is not."""
    assert comes_true(true, seconds), f"not within {seconds:g} s: {what}"


def comes_true(true: Callable[[], object], seconds: float) -> bool:
    """Whether something becomes true within so many seconds; returns soon after: it is looked at again and again, first
    after a millisecond, later every 20.
    """
    deadline, pause = _clock.monotonic() + seconds, 0.001
    while not true():
        if _clock.monotonic() > deadline:
            return False
        _never.wait(pause)
        pause = min(2 * pause, 0.02)
    return True


class Process:
    """`python -m MODULE ARGUMENTS` with the code of a tree, in a session of its own.

    Args:
        module: what is run.
        arguments: its arguments.
        log: the file for its output.
        environment: variables besides those of this process.
        tree: with the code; the working directory.
        preloads: modules that are imported once for all processes that name the same ones; none: a new interpreter, for
            tests of what a program imports, of its memory, and of what it inherits: limits, namespaces, a mask; None:
            what the program imports in any case, if the tree is this one.
    """

    is_preloaded: ClassVar = True
    """Whether a process is by default one that has imported its modules already: benches measure starts and memory."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        tree: Path = REPOSITORY,
        preloads: Sequence[str] | None = None,
    ) -> None:
        self.log = log
        if preloads is None:
            preloads = _PRELOADS.get(module, ()) if tree == REPOSITORY and self.is_preloaded else ()
        self._process: subprocess.Popen[bytes] | PreloadedProcess
        with log.open("ab") as output:
            said = log.open("rb")
            said.seek(0, os.SEEK_END)
            if preloads:
                server = preloaded(tuple(preloads), tree)
                streams = dict.fromkeys((1, 2), output.fileno())
                self._process = server.start(module, arguments, streams, {**os.environ, **(environment or {})})
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-X", "faulthandler", "-m", module, *arguments],
                    cwd=tree,
                    env={**os.environ, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        _outputs.append((self, said))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def signal(self, *numbers: signal.Signals) -> None:
        """Sends signals, one right after the other."""
        for number in numbers:
            self._process.send_signal(number)

    def outlives(self, number: int) -> bool:
        """Whether it ignores or handles a signal that would end it otherwise."""
        fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return bool((int(fields["SigIgn"], 16) | int(fields["SigCgt"], 16)) >> number - 1 & 1)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit status, negative when a signal has ended it."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} still runs after {seconds:g} s\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def text(self) -> str:
        """All it has printed."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 60) -> str:
        """The end of the log; after a crash, all of the crash."""
        text = self.text().splitlines()
        crash = next((number for number, line in enumerate(text) if line.startswith(_CRASH)), len(text))
        return "\n".join(text[min(crash, max(0, len(text) - lines)) :])


_outputs: Final[list[tuple[Process, IO[bytes]]]] = []
"""The output of the processes that have been started, from where `failed_modules` has read it last."""


def failed_modules() -> list[str]:
    """What processes have said since the last call of modules that have failed: they start them again."""
    failed = []
    for process, output in list(_outputs):
        has_ended = not process.runs
        failed += [line.decode(errors="replace") for line in _FAILED.findall(output.read())]
        if has_ended:
            output.close()
            _outputs.remove((process, output))
    return failed


def run_program(
    program: str,
    *arguments: str,
    given: str = "",
    environment: Mapping[str, str] | None = None,
    instead: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `edgecore` or `cloudcore` to its end, in a process that has imported already what it needs in any case.

    Args:
        program: its name.
        arguments: of the command line.
        given: its standard input; less than a pipe holds.
        environment: variables besides those of this process.
        instead: a module that is run in the place of the program's, with the same imports.
    """
    module = f"modules.processes.{program}"
    read, write = os.pipe()
    with closing(os.fdopen(read)), TemporaryFile() as output, TemporaryFile() as errors:
        with os.fdopen(write, "w") as text:
            text.write(given)
        streams = dict(enumerate((read, output.fileno(), errors.fileno())))
        server, variables = preloaded(_PRELOADS[module], REPOSITORY), {**os.environ, **(environment or {})}
        process = server.start(instead or module, arguments, streams, variables)
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
        said = [os.pread(file.fileno(), file.tell(), 0).decode() for file in (output, errors)]
    return subprocess.CompletedProcess([program, *arguments], status, *said)


def processes_of(directory: Path) -> list[int]:
    """Processes that name a directory in their command line or environment: whatever was started there."""
    mark = os.fsencode(directory)
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [int(entry.name) for entry in entries if int(entry.name) != os.getpid() and mark in _words_of(entry)]


def _words_of(process: Path) -> bytes:
    """Return the command line and environment of a process; empty of the kernel's and of one that has ended.

    In the moment of its exec a process has neither, and is looked at again.
    """
    words = b""
    with suppress(OSError):
        for _ in range(_LOOKS):
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if words:
                break
            (process / "exe").readlink()
    return words


def mounts_below(directory: Path) -> list[str]:
    """Mount points of this mount namespace below a directory."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (line.split()[4].replace("\\040", " ") for line in mounts)
    return [point for point in points if Path(point).is_relative_to(directory)]
