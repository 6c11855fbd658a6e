"""Containers without conmon: edgecore's shim as their parent, with the same logs, ends, streams and survival."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.crun.conmon import conmon_pid
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.shim.arguments import Arguments, parse
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci import test_life, test_streams
from tests.modules.runtimes.oci.node import OciNode
from tests.modules.runtimes.oci.served import settings_of
from tests.modules.runtimes.process.node import alive, wait_for_death
from tests.modules.runtimes.stream_client import streaming_session


class ShimNode(OciNode):
    """A node without conmon."""

    def _settings(self) -> OciSettings:
        settings = settings_of(self.state, self.clock)
        return settings._replace(programs=settings.programs._replace(conmon=None))

    def new_runtime(self) -> CriServer:
        """Return a runtime on the node's directory, not started."""
        return CriServer(self.state, self.socket, self.clock, self._settings())

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, self._settings())


@pytest.fixture
def shims(node_root: Path) -> Iterator[ShimNode]:
    """A node whose containers have shims."""
    with ShimNode(node_root) as started:
        yield started


_ALIKE = (
    test_life.test_output_exit_code_and_times,
    test_life.test_out_of_memory,
    test_streams.test_an_attached_shell,
)
_ALIKE_TOO = (
    test_life.test_a_program_that_is_not_there,
    test_life.test_without_a_log,
    test_life.test_a_log_that_was_rotated,
    test_streams.test_a_command_with_a_terminal,
)
_CASES = [*_ALIKE, *(pytest.param(each, marks=pytest.mark.slow) for each in _ALIKE_TOO)]


@pytest.mark.parametrize("behaviour", _CASES, ids=lambda each: each.__name__)
def test_it_is_as_with_conmon(shims: ShimNode, behaviour: Callable[[OciNode], None]) -> None:
    """The tests of conmon's part hold."""
    behaviour(shims)


def test_a_terminal(shims: ShimNode) -> None:
    """The container has one, of the size that a client sets; input and output pass; its log has the output."""
    container = shims.shell("stty size; read line; echo got $line; tty", cri.ContainerConfig(tty=True, stdin=True))
    url = shims.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True, tty=True)).url
    with streaming_session(url) as session:
        session.send(4, b'{"Width":100,"Height":30}')
        session.send(0, b"text\n")
        session.until(1, b"got text\r\n")
    assert shims.ended(container).exit_code == 0
    said = [text.rstrip("\r") for _, _, text in shims.log(container)]
    assert {"text", "got text"} <= set(said)
    assert any(line.startswith("/dev/") for line in said)


@pytest.mark.slow
def test_much_output_and_input_that_is_not_taken(shims: ShimNode) -> None:
    """A container that reads late gets all, a writing one is not held up, and its log is whole."""
    script = "seq 1 20000; cat | wc -c"
    config = cri.ContainerConfig(stdin=True, stdin_once=True)
    container = shims.shell(script, config)
    url = shims.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True)).url
    with streaming_session(url) as session:
        for _ in range(40):
            session.send(0, bytes(10_000))
        session.send(255, b"\0")
        session.until(1, b"400000")
    assert shims.ended(container).exit_code == 0
    assert [text for _, _, text in shims.log(container)] == [*map(str, range(1, 20_001)), "400000"]


def test_it_outlives_edgecore_and_its_death_is_noticed(shims: ShimNode) -> None:
    """As conmon does; the verbose status says which of both it is."""
    info = shims.cri.Status(cri.StatusRequest(verbose=True)).info
    assert '"parent": "shim"' in info["runtime"]
    container = shims.shell("while [ ! -e /go ]; do sleep 0.01; done; echo bye; exit 9")
    lost = shims.shell("exec sleep 1000")
    directory = shims.state / "containers" / container
    shims.disconnect()
    shims.runtime.stop()
    parent = conmon_pid(directory)
    assert parent is not None
    assert alive(parent)
    (directory / "rootfs" / "go").touch()
    wait_for_death(parent)
    shims.runtime = shims.new_runtime()
    shims.runtime.start()
    shims.connect()
    assert shims.status(container).exit_code == 9
    assert shims.log(container) == [("stdout", "F", "bye")]
    parent = conmon_pid(shims.state / "containers" / lost)
    assert parent is not None
    pid = shims.pid(lost)
    os.kill(parent, signal.SIGKILL)
    assert shims.ended(lost).reason == "Unknown"
    wait_for_death(pid)


def test_the_command_line() -> None:
    """The options of conmon(8) that edgecore uses."""
    line = (
        "--api-version 1 -c ID -u ID -n NAME -r /crun -b /bundle --runtime-arg=--root=/r --runtime-arg=--x -p /pid "
        "-P /own --persist-dir /persist --full-attach -l k8s-file:/log --log-level warning --no-sync-log -t"
    )
    assert parse(line.split()) == Arguments(
        "ID", "/crun", ("--root=/r", "--x"), "/bundle", "/pid", "/own", "/persist", "/log", terminal=True
    )
    assert parse(["-i", "--leave-stdin-open"]) == Arguments(stdin=True, leave_stdin_open=True)
