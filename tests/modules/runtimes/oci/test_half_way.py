"""What commands, their streams and looks at processes and images have left when a call fails half-way."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest

from beehive.files.descriptors import OwnedFd
from beehive.simulation import Simulation
from modules.runtimes.engine.errors import RunFailedError, WrongStateError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import BootId, SandboxId, SandboxRecord
from modules.runtimes.oci import execution, orphans, processes, streams
from modules.runtimes.oci.bundles import Bundles
from modules.runtimes.oci.crun import conmon
from modules.runtimes.oci.crun.conmon import BUNDLE
from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.read_only_program import ReadOnlyProgram
from modules.runtimes.oci.execution import Executor
from modules.runtimes.oci.metrics import collector
from modules.runtimes.oci.orphans import Orphan, await_orphans
from modules.runtimes.oci.processes import ContainerProcesses
from modules.runtimes.oci.sandbox_resources import SandboxResources
from modules.runtimes.shim import kernel
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


class _Command:
    """A command that runs; it hands its terminal over, as crun does."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.program = "sh"
        self.console = "console"

    def start(self, _streams: object, options: Sequence[str] = ()) -> int:
        """Start it, and return a descriptor that tells its end."""
        with ExitStack() as own:
            if "--console-socket" in options:
                console = own.enter_context(socket.socket(socket.AF_UNIX))
                console.connect(options[-1])
                for each in (terminal := os.openpty()):
                    own.callback(os.close, each)
                socket.send_fds(console, [b"terminal"], [terminal[0]])
            return os.pidfd_open(os.getpid())

    def await_start(self) -> bool:
        """Wait until it has begun."""
        return True

    def terminal_resized(self) -> None:
        """Do nothing."""


def _pipes(command: Any, stack: ExitStack) -> None:
    opened = streams._pipes(command, "execute", stdin=True, stack=stack)
    assert opened.stdin is not None
    stack.callback(os.close, opened.stdin)


def _terminal(command: Any, stack: ExitStack) -> None:
    streams._terminal(command, "execute", stack)


def _passed_terminal(command: Any, stack: ExitStack) -> None:
    streams._passed_terminal(command, "execute", stack)


def test_a_sandbox_keeps_its_namespaces_until_it_is_detached() -> None:
    """The plug-ins need its network namespace, also when they are called again."""
    made, failing, done = SimpleNamespace(network=Path("/proc/self/ns/net")), Failing(0), list[str]()
    namespaces = SimpleNamespace(
        pinned=lambda _: made if "unpin" not in done else None, unpin=lambda _: done.append("unpin")
    )

    def detach(_id: str, _directory: Path, netns: Path | None) -> None:
        assert netns == made.network
        failing.step()
        done.append("detach")

    resources = SandboxResources(cast("Any", namespaces), cast("Any", SimpleNamespace(detach=detach)))
    sandbox: Any = SimpleNamespace(id="s1", directory=Path())
    with pytest.raises(PlannedError):
        resources.release(sandbox)
    resources.release(sandbox)
    assert done == ["detach", "unpin"]


def test_a_sandbox_without_its_namespaces_is_ready_no_more(tmp_path: Path) -> None:
    """Where edgecore's own namespaces ended with it, in one boot: no container of the pod could start any more."""
    record = SandboxRecord(0, "10.0.0.1", BootId("b"))
    kept, lost = (Sandbox(SandboxId(each), tmp_path, cri.RunPodSandboxRequest(), record) for each in ("kept", "lost"))
    pinned = {"kept": SimpleNamespace(network=None)}
    namespaces: Any = Mock(pinned=pinned.get, sandboxes=lambda: {"kept"}, unconfined=set)
    network: Any = Mock()
    SandboxResources(namespaces, network).collect([kept, lost])
    assert [each.state for each in (kept, lost)] == [cri.SANDBOX_READY, cri.SANDBOX_NOTREADY]
    assert network.detach.call_args.args == ("lost", tmp_path, None)
    assert network.watch.call_args.args[0].keys() == {"kept"}


@pytest.mark.parametrize(("opens", "calls"), [(_pipes, 4), (_terminal, 8), (_passed_terminal, 3)])
def test_a_command_whose_streams_fail_leaves_no_descriptor(
    tmp_path: Path, opens: Callable[[Any, ExitStack], None], calls: int
) -> None:
    """As when the process has no more descriptors: each exec of a client would take some more."""

    def make(failing: Failing) -> Attempt:
        kept = ExitStack()

        def run() -> None:
            (tmp_path / "console").unlink(missing_ok=True)
            with ExitStack() as stack, failing.kernel_calls():
                opens(failing.calls_of(_Command(tmp_path), "await_start"), stack)
                kept.push(stack.pop_all())

        return Attempt(run, undo=kept.close, is_repeatable=False)

    assert fail_at_each_call(make) >= calls


def test_a_container_that_cannot_be_attached_to_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / BUNDLE).mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as conmon:
        conmon.bind(str(tmp_path / BUNDLE / "attach"))
        conmon.listen(100)

        def make(failing: Failing) -> Attempt:
            made: list[socket.socket] = []

            def run() -> None:
                with failing.kernel_calls():
                    made.append(streams._connect_to_parent(tmp_path))

            return Attempt(run, undo=lambda: made.pop().close())

        assert fail_at_each_call(make) >= 2


@pytest.mark.parametrize("error", [None, RuntimeError("of this test")])
def test_the_descriptor_of_an_orphan_is_closed(error: Exception | None) -> None:
    """Also after an error that is not the kernel's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        orphan = Orphan(other.pid, orphans._arguments(other.pid))

        def make(failing: Failing) -> Attempt:
            def run() -> None:
                with failing.kernel_calls(), pytest.MonkeyPatch.context() as patched:
                    patched.setattr(orphans, "_is_done", lambda *_: True)
                    await_orphans([orphan])

            return Attempt(run)

        assert fail_at_each_call(make, error) >= 1


@pytest.mark.parametrize("fails", ["mount_image", "resolve_linux_user", "inside_image"])
def test_an_image_that_cannot_be_looked_at_is_mounted_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    removed, bundles = list[Path](), cast("Any", object.__new__(Bundles))
    for name in ("resolve_linux_user", "inside_image"):
        monkeypatch.setattr(f"modules.runtimes.oci.bundles.{name}", Mock())
    monkeypatch.setattr("modules.runtimes.oci.bundles.names_user", lambda *_: fails != "inside_image")
    bundles._images, bundles._roots = Mock(), Mock(remove=removed.append)
    failing = Mock(side_effect=PlannedError)
    if fails == "mount_image":
        bundles._roots.mount_image = failing
    else:
        monkeypatch.setattr(f"modules.runtimes.oci.bundles.{fails}", failing)
    mount = cri.Mount(image=cri.ImageSpec(image="volume"), image_sub_path="data")
    container = Mock(id="c", directory=tmp_path / "c", config=cri.ContainerConfig(mounts=[mount]))
    container.record.image_volumes = {"volume": "sha256:1"}
    with pytest.raises(PlannedError):
        bundles.check_images(container)
    assert removed == [tmp_path / ".c"]


def test_a_command_that_cannot_be_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files in the container's directory go, too."""
    command = MagicMock()
    command.__exit__.return_value = False
    monkeypatch.setattr(streams, "Command", lambda *_: command)
    monkeypatch.setattr(streams, "command_of", lambda *_, **__: {})
    monkeypatch.setattr(streams, "_pipes", Failing(0).call(print))
    with pytest.raises(PlannedError):
        streams.ContainerStreams(Mock(), Mock(), Mock(), Mock()).exec("c", ["true"], tty=False, stdin=False)
    assert command.__exit__.called


def test_a_program_that_cannot_be_heard_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Mock(communicate=Mock(side_effect=(MemoryError, None)))
    monkeypatch.setattr(Launcher, "start", lambda *_: process)
    with pytest.raises(MemoryError):
        cast("Any", Launcher).run(Launcher.__new__(Launcher), ("crun",))
    assert [name for name, *_ in process.method_calls] == ["communicate", "kill", "communicate"]


def test_a_program_that_cannot_be_mounted_leaves_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of edgecore would unmount it, which the machine refuses as well."""
    program = SimpleNamespace(_directory=tmp_path / "made", _program=tmp_path / "crun")
    monkeypatch.setattr(kernel, "mount", Failing(0).call(print))
    with pytest.raises(PlannedError):
        ReadOnlyProgram._mount(cast("Any", program), tmp_path / "made" / "crun")
    assert list((tmp_path / "made").iterdir()) == []


def test_a_start_that_cannot_be_undone_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_settled_conmon", lambda *_, **__: os.pidfd_open(os.getpid()))
    found = SimpleNamespace(_runtime=SimpleNamespace(delete=Failing(0, MemoryError()).call(print)))
    before = census()
    with pytest.raises(MemoryError):
        ContainerProcesses._undo(cast("Any", found), "c", tmp_path)
    assert not census().more_than(before)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENXIO, WrongStateError), (errno.EAGAIN, RunFailedError), (errno.EIO, OSError)]
)
def test_a_log_that_cannot_be_opened_again_is_an_error_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(conmon, "reopen_log", Failing(0, OSError(number, "")).call(print))
    container = SimpleNamespace(log_path=str(tmp_path / "log"), directory=tmp_path)
    with pytest.raises(kind):
        ContainerProcesses.reopen_log(cast("Any", None), cast("Any", container), "reopen the log")


def test_a_namespace_that_cannot_be_entered_is_closed() -> None:
    before = census()
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.join_namespace(os.devnull, 0)
    assert not census().more_than(before)


def test_a_command_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe may run one each second; any of its calls may fail."""
    container = SimpleNamespace(id="c", directory=None)

    def make(failing: Failing) -> Attempt:
        command = Mock(start=lambda _: os.open(os.devnull, os.O_RDONLY), poll=lambda: 0, was_started=True)

        @contextmanager
        def opened(*_: object) -> Iterator[Mock]:
            with OwnedFd(os.open(os.devnull, os.O_RDONLY)):
                yield command

        monkeypatch.setattr(execution, "Command", opened)
        executor = Executor(cast("Any", None), cast("Any", None), Simulation(0).clock)

        def run() -> None:
            with failing.kernel_calls():
                answer = executor._once(cast("Any", container), {}, None, lambda _: True)
            assert answer == cri.ExecSyncResponse()

        return Attempt(run)

    assert fail_at_each_call(make) >= 5


def test_the_sockets_of_processes_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """All descriptors are, without a look at what they are."""
    monkeypatch.setattr(collector, "_MOST_LINKS", 3)
    monkeypatch.setattr(os, "listdir", lambda _: ["0", "1"])
    monkeypatch.setattr(collector, "_is_socket", lambda _: True)
    assert collector._descriptors([1, 2, 3]) == (6, 3)
