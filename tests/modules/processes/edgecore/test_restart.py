"""`edgecore restart`: the node starts again as it was started, or the command says why it cannot know that."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import restart
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.ownership import LOCK_FILE
from modules.processes.edgecore.socket_path import SOCKET
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.observation import observe_node
from tests.end_to_end.processes import run_program, wait_until
from tests.modules.processes.edgecore.upgrade.test_updater_process import write_program
from tests.support.directories import short_directory

_NODE: Final = """\
import fcntl, os, socket, sys
print("started", os.environ["PLACE"], os.getcwd(), *sys.argv[1:], flush=True)
if os.path.exists({directory!r} + "/broken"):
    sys.exit(7)
lock = os.open({directory!r} + "/edgecore.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.ftruncate(lock, 0)
os.write(lock, b"%d\\n" % os.getpid())
path = {directory!r} + "/{socket}"
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
while True:
    connection, _ = server.accept()
    state = b'{{"version": "1.2.3", "link": {{}}, "modules": {{}}}}'
    text = state if b"/edgecore/state" in connection.recv(1000) else b'{{"items": []}}'
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + text)
    connection.close()
"""


class Node:
    """A program of a few lines in the place of a node."""

    def __init__(self, root: Path) -> None:
        self.root, self.directory, self.log = root, root / "edged", root / "log"
        self.directory.mkdir()
        text = _NODE.format(directory=str(self.directory), socket=SOCKET)
        self.program = write_program(root / "bin" / "edgecore", text)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> int:
        """The process that runs it; 0 if none does."""
        return owner_of(self.directory / LOCK_FILE)

    def start(self, output: int | IO[bytes]) -> None:
        """Start it in its directory."""
        words = [sys.executable, str(self.program), "run", "--root", str(self.root)]
        environment = {**os.environ, "PLACE": "roof"}
        self._child = subprocess.Popen(words, cwd=self.directory, env=environment, stdout=output, stderr=output)
        wait_until(lambda: self.process and observe_node(str(self.directory / SOCKET)), "the node answers")

    def stop(self) -> None:
        """Stop it, whoever has started it."""
        while process := self.process:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
            for stream in (self._child.stdout, self._child.stderr):
                if stream is not None:
                    stream.close()

    def restart(self) -> int:
        """Run the command; return its exit status."""
        return main(["restart", "--root", str(self.root)])


@pytest.fixture
def node() -> Iterator[Node]:
    """A node that does not run yet."""
    with short_directory("restart-") as directory:
        made = Node(directory)
        yield made
        made.stop()


@pytest.mark.extended
def test_a_process_is_started_as_it_was(node: Node) -> None:
    with node.log.open("ab") as log:
        node.start(log)
    before = node.process
    said = run_program("edgecore", "restart", "--root", str(node.root))
    assert node.process not in (0, before)
    assert said.stdout == f"edgecore 1.2.3 runs, process {node.process}\n"
    line = f"started roof {node.directory} run --root {node.root}\n"
    assert node.log.read_text() == 2 * line


@pytest.mark.extended
def test_one_whose_output_is_somebody_elses_goes_on(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal, or a supervisor that reads a pipe and would start it, too."""
    node.start(subprocess.PIPE)
    before = node.process
    assert node.restart() == ExitCode.NOT_DONE
    assert "this node writes to a terminal or to another program" in capsys.readouterr().err
    assert node.process == before


def test_without_a_node(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert node.restart() == ExitCode.NOT_DONE
    assert "this node does not run" in capsys.readouterr().err


@pytest.mark.extended
def test_one_that_ends_again(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    with node.log.open("ab") as log:
        node.start(log)
    (node.directory / "broken").touch()
    assert node.restart() == ExitCode.NOT_DONE
    assert "the node has ended again: exit status 7" in capsys.readouterr().err


@pytest.mark.extended
def test_a_wrong_configuration_leaves_the_node_as_it_is(node: Node) -> None:
    with node.log.open("ab") as log:
        node.start(log)
    before = node.process
    (node.root / "edgecore.yaml").write_text("modules: 1\n")
    assert node.restart() == ExitCode.CONFIGURATION
    assert node.process == before


@pytest.mark.parametrize(("status", "ends"), [(0, ExitCode.OK), (1, ExitCode.NOT_DONE)])
@pytest.mark.extended
def test_a_unit_is_restarted_by_systemd(
    node: Node,
    status: int,
    ends: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with node.log.open("ab") as log:
        node.start(log)
    text = f"import sys; print(*sys.argv[1:], file=open({str(tmp_path / 'words')!r}, 'w')); sys.exit({status} and 'no')"
    write_program(tmp_path / "programs" / "systemctl", text)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    lock, path = str(node.directory / LOCK_FILE), str(node.directory / SOCKET)
    found: Callable[..., NodeHandle] = lambda *_: NodeHandle(lock, path, [], [], "edgecore.service", user=True)  # noqa: E731
    monkeypatch.setattr(restart, "running_node", found)
    owners = iter([node.process, node.process, node.process])
    monkeypatch.setattr(restart, "owner_of", lambda _: next(owners, 1))
    assert node.restart() == ends
    assert (tmp_path / "words").read_text() == "--user restart edgecore.service\n"
    assert ("systemd did not restart the node: edgecore.service (no)" in capsys.readouterr().err) is bool(status)


def test_a_node_whose_output_cannot_be_opened_goes_on(tmp_path: Path) -> None:
    """It is not ended before."""
    started = restart._Started([sys.executable, "-c", ""], {}, tmp_path, [tmp_path / "no" / "log"] * 2)
    with pytest.raises(FileNotFoundError):
        started.again(lambda: pytest.fail("it was ended"))
