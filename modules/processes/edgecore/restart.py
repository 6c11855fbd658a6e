"""The command `edgecore restart`: the node starts again as it runs now, and its containers go on.

systemd does it where it runs the node. Otherwise the process is ended by its lock, and started with the words, the
environment, the directory and the files of its output that it had; in an installation, by the launcher.
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from beehive.errors import BeehiveError
from modules.apimachinery.printing.terminal import print_lines
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.upgrade.commands import running_node
from modules.processes.edgecore.upgrade.exclusion import changes_of, held, words_of
from modules.processes.edgecore.upgrade.updater.installation import installation_of
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.observation import observe_node
from modules.processes.edgecore.upgrade.updater.processes import end_process

_ANSWER_SECONDS: Final = 120.0
"""Seconds that a node may take until it answers."""
_SYSTEMD_SECONDS: Final = 300.0
_EVERY: Final = 0.1
_OUTPUTS: Final = ("1", "2")
_HINT: Final = "end it and start it again where it was started"


class RestartError(BeehiveError):
    """A restart that was refused, or after which the node does not run."""


class _Started(NamedTuple):
    """The way in which a process was started."""

    words: list[str]
    environment: dict[bytes, bytes]
    directory: Path
    outputs: list[Path]
    """Files of standard output and standard error."""

    @classmethod
    def of(cls, process: int) -> "_Started":
        """Read it from the process. Raises RestartError if it could not be repeated."""
        directory = Path(f"/proc/{process}")
        try:
            if directory.stat().st_uid != os.geteuid():
                raise RestartError("another user runs this node", f"process {process}", "run the command as that user")
            pairs = (each.partition(b"=") for each in (directory / "environ").read_bytes().split(b"\0") if each)
            environment = {name: value for name, _, value in pairs}
            outputs = [(directory / "fd" / number).readlink() for number in _OUTPUTS]
            words, here = words_of(process), (directory / "cwd").readlink()
        except OSError as error:
            raise RestartError("cannot see how this node was started", f"process {process}: {error}", _HINT) from error
        if not all(path.is_file() or path == Path(os.devnull) for path in outputs):
            raise RestartError("this node writes to a terminal or to another program", f"process {process}", _HINT)
        installation = installation_of(Path(words[0]).parent.parent)
        if installation is not None and "run" in words:
            words = [str(installation.launcher), *words[words.index("run") :]]
        return cls(words, environment, here, outputs)

    def again(self, end: Callable[[], None]) -> "subprocess.Popen[bytes]":
        """Start it again, as a process that outlives this one.

        Args:
            end: ends the node. It is called once the files of the output are open.

        Raises:
            OSError: there is no such program or directory any more, or a file cannot be opened.
        """
        with ExitStack() as stack:
            said, complained = (stack.enter_context(path.open("ab")) for path in self.outputs)
            end()
            return subprocess.Popen(
                self.words,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
                start_new_session=True,
            )


@reporting_errors
def restart(chosen: argparse.Namespace) -> None:
    """Restart the node, and wait until it answers."""
    location = node_location(chosen)
    config = location.load().config
    node = running_node(config, location)
    if node is None:
        raise RestartError("this node does not run", str(location), "`edgecore run` starts it")
    with held(changes_of(location, config)):
        process = owner_of(Path(node.lock))
        if node.unit:
            _restart_unit(node)
            child = None
        else:
            started = _Started.of(process)
            child = started.again(lambda: end_process(process, lambda: owner_of(Path(node.lock)) == process))
        _wait(node, process, child)


def _restart_unit(node: NodeHandle) -> None:
    command = ["systemctl", *(["--user"] if node.user else []), "restart", node.unit]
    try:
        subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SYSTEMD_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        raise RestartError("systemd did not restart the node", node.unit, error.stderr.strip()) from error
    except subprocess.TimeoutExpired as error:
        raise RestartError("systemd did not restart the node", node.unit, str(error)) from error


def _wait(node: NodeHandle, before: int, child: "subprocess.Popen[bytes] | None") -> None:
    """Wait until another process than before answers. Raises RestartError if none does."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while (process := owner_of(Path(node.lock))) in (0, before) or (seen := observe_node(node.socket)) is None:
        if child is not None and child.poll() is not None:
            raise RestartError("the node has ended again", f"exit status {child.returncode}", "its log says why")
        if time.monotonic() > deadline:
            raise RestartError("the node does not answer", node.socket, "its log says why")
        time.sleep(_EVERY)
    print_lines([f"edgecore {seen.version} runs, process {process}"])
