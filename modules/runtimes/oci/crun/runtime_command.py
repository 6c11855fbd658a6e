"""The command line of an OCI runtime (runtime-spec `runtime.md`, "Operations"), as crun and runc share it.

States are recognised by exit statuses and by edgecore's own records; the programs' texts are only passed on.

A container that crun has created is started without crun. crun's first process of a container waits for a byte from the
FIFO `exec.fifo` in crun's directory of the container. `crun start` does no more than write it, unless the container has
hooks for its start; but for that it loads ten libraries and reads its state. The FIFO of runc works the other way
round: nobody reads it, and runc is called.

The FIFO is renamed first: from then on crun takes the container for a running one. An edgecore that is killed between
that and the byte leaves a FIFO with the new name. The next edgecore must not write the byte, although the first process
still waits: without a writer that process calls `select` and `read` again and again, and a writer that comes between
the two makes `read` fail (EAGAIN), and then the process ends.

What crun keeps of an ended container is removed without crun, too: its control groups, if they are still there and
empty, and its directory (crun 1.8.1, `src/libcrun/container.c`). The state of runc is another, and runc is called.
"""

import errno
import fcntl
import json
import os
import struct
import subprocess
import termios
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from beehive.files.descriptors import OwnedFd, open_process
from beehive.nesting import read_json
from beehive.patterns import pattern
from modules.runtimes.oci.crun.launching import Finished, Launcher
from modules.runtimes.oci.crun.read_only_program import ReadOnlyProgram
from modules.runtimes.oci.members import kill_members, shares_processes
from modules.runtimes.oci.orphans import await_orphans, commands_with

_LONGEST_MESSAGE = 2048
"""Characters kept of a program's message."""
_COLOURS = pattern(r"\x1b\[[0-9;]*m")
"""crun colours its output to a terminal."""

_WAITING: Final = "exec.fifo"
_BEGUN: Final = "exec.fifo.begun"
_STATE: Final = ("status", "config.json")
"""What crun keeps of a container, in the order of removal: `crun delete` refuses what has lost only the second file."""


class CommandFailedError(Exception):
    """A program that makes containers did not do it; the text is the program's own."""


class RuntimeCommand:
    """crun or runc with a directory of its own for the states of containers.

    Args:
        launcher: starts it.
        program: path of crun or runc.
        root: its directory; other users of the same program do not see the containers in it.
        systemd: whether systemd makes the control groups.
        mounted: the program on a read-only mount, if it is to be executed from there.
        has_groups: whether it may make control groups.
        groups: where the machine's control groups are mounted.
    """

    def __init__(
        self,
        launcher: Launcher,
        program: Path,
        root: Path,
        *,
        systemd: bool = False,
        mounted: ReadOnlyProgram | None = None,
        has_groups: bool = True,
        groups: Iterable[Path] = (),
    ) -> None:
        self._launcher = launcher
        self.program = program
        self._root = root
        self._systemd = systemd
        self._mounted = mounted
        self.has_groups = has_groups
        self._groups = tuple(groups)

    @property
    def is_crun(self) -> bool:
        """Whether the program is crun."""
        return self.program.name == "crun"

    @property
    def executable(self) -> Path:
        """The path that executes the program."""
        return self.program if self._mounted is None else self._mounted.path()

    @property
    def options(self) -> list[str]:
        """The options before every command; conmon gets them too."""
        groups = ["--systemd-cgroup"] if self._systemd else []
        if not self.has_groups:
            groups = ["--cgroup-manager=disabled"]
        return [f"--root={self._root}", "--log-format=json", *groups]

    def argv(self, *arguments: str) -> list[str]:
        """Return the command line of an operation."""
        return [str(self.executable), *self.options, *arguments]

    def start(self, container: str, *, has_hooks: bool = False) -> None:
        """Start a created container. Raises CommandFailedError.

        Args:
            container: its id.
            has_hooks: whether the OCI runtime executes hooks after the start (`poststart`).
        """
        try:
            if not has_hooks and start_waiting(self._root / container):
                return
        except OSError as error:
            raise CommandFailedError(f"the first process cannot be started: {error.strerror}") from error
        self._demand("start", container)

    def delete(self, container: str) -> None:
        """Kill the processes of a container and delete its state; a missing container is no error. Raises
        CommandFailedError.

        crun gives up if one of them has ended by itself before it could open it; the second time it is not there.
        """
        if not self.has_groups and shares_processes(self._root / container):
            kill_members(container)
        if removed_ended(self._root / container, self._groups):
            return
        delete = ("delete", "--force", container)
        if self._run(*delete).code != 0:
            self._demand(*delete)

    def kill_all(self, container: str) -> None:
        """Kill all processes of a container that shares its process namespace; one without any is no error."""
        if self.has_groups:
            self._run("kill", "--all", container, "KILL")
        else:
            kill_members(container)

    def update(self, container: str, resources: dict[str, Any]) -> None:
        """Change limits; `resources` is the object of `config.json`. Raises CommandFailedError."""
        self._demand("update", "--resources", "-", container, stdin=json.dumps(resources).encode())

    def await_others(self, container: str = "") -> None:
        """Wait for commands that another process has begun, of a container or of all (`oci.orphans`)."""
        await_orphans(commands_with(self.options[0], container))

    def is_created(self, container: str) -> bool:
        """Return whether a container is created and was not started; an earlier edgecore may have begun that.

        The OCI runtime is asked only where its FIFO waits for the start: for a started container this costs nothing.
        """
        state = self._root / container
        return (waits_for_start(state) and self._status(container) == "created") or settle_start(state)

    def _status(self, container: str) -> str:
        finished = self._run("state", container)
        try:
            return str(read_json(finished.stdout)["status"]) if finished.code == 0 else ""
        except (ValueError, KeyError, TypeError):
            return ""

    def _demand(self, *arguments: str, stdin: bytes = b"") -> None:
        finished = self._run(*arguments, stdin=stdin)
        if finished.code != 0:
            raise CommandFailedError(message_in(finished.stderr) or f"{self.program.name} ended with {finished.code}")

    def _run(self, *arguments: str, stdin: bytes = b"") -> Finished:
        try:
            return self._launcher.run(self.argv(*arguments), stdin)
        except subprocess.TimeoutExpired as error:
            text = f"{self.program.name} {arguments[0]} did not end within {error.timeout:.0f} s"
            raise CommandFailedError(text) from error
        except OSError as error:
            raise CommandFailedError(str(error)) from error


def message_in(stderr: bytes) -> str:
    """Return the message of the last line that a program wrote: the `msg` of a JSON object, or the line itself."""
    text = _COLOURS.sub("", stderr[-2 * _LONGEST_MESSAGE :].decode("utf-8", "replace"))
    lines = text.strip().splitlines()
    if not lines:
        return ""
    try:
        said = str(read_json(lines[-1])["msg"])
    except (ValueError, KeyError, TypeError):
        said = lines[-1]
    return "".join(char if char.isprintable() else " " for char in said)[:_LONGEST_MESSAGE]


def start_waiting(state: Path) -> bool:
    """Start a created container; return False if its first process does not wait in this way. Raises OSError.

    Args:
        state: the OCI runtime's directory of the container.
    """
    try:
        waiting = os.open(f"{state}/{_WAITING}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    with OwnedFd(waiting):
        os.rename(f"{state}/{_WAITING}", f"{state}/{_BEGUN}")  # noqa: PTH104 - strings: this is done for each container
        _release(waiting)
        os.unlink(f"{state}/{_BEGUN}")  # noqa: PTH108 - as above
    return True


def waits_for_start(state: Path) -> bool:
    """Return whether nobody has begun to start a container, by the FIFO; its first process may have ended."""
    return (state / _WAITING).exists()


def settle_start(state: Path) -> bool:
    """Return whether the first process waits for a byte that a killed edgecore was about to write.

    If not, it has started or ended, and the renamed FIFO is removed; there may be none.
    """
    try:
        with OwnedFd(os.open(state / _BEGUN, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as waiting:
            if not _has_unread(waiting):
                return True
    except OSError as error:
        if error.errno != errno.ENXIO:
            return False
    with suppress(OSError):  # the container's removal removes it, too
        (state / _BEGUN).unlink()
    return False


def removed_ended(state: Path, groups: Iterable[Path]) -> bool:
    """Remove crun's state of a container that leaves crun no work: no process, hook, or control group in use. Return
    whether that was so.

    Args:
        state: the OCI runtime's directory of the container.
        groups: where the machine's control groups are mounted.
    """
    try:
        files = [f"{state}/{file}" for file in _STATE]
        status, config = (read_json(Path(file).read_bytes()) for file in files)
        has_more = "intelRdt" in config["linux"] or "poststop" in config.get("hooks", {})
        if status["systemd-cgroup"] or has_more or _exists(status["pid"]):
            return False
        for path in [f"{each}/{status['cgroup-path']}" for each in groups]:
            if os.path.exists(path):  # noqa: PTH110 - strings: in ten hierarchies; mostly it has gone with the pod's
                with suppress(FileNotFoundError):  # now
                    os.rmdir(path)  # noqa: PTH106 - as above
        for file in files:
            with suppress(FileNotFoundError):
                os.unlink(file)  # noqa: PTH108 - as above
        with suppress(FileNotFoundError):
            os.rmdir(state)  # noqa: PTH106 - as above
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def _exists(pid: int) -> bool:
    try:
        os.close(open_process(pid))
    except ProcessLookupError:
        return False
    return True


def _has_unread(fifo: int) -> bool:
    (unread,) = struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, struct.pack("i", 0)))
    return bool(unread)


def _release(waiting: int) -> None:
    os.write(waiting, b"\0")
