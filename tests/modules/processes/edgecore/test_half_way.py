"""What commands of the node have left when a call fails half-way: processes, descriptors, files, the terminal."""

import os
import pty
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import termios
import threading
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from beehive import Hive, Threads
from modules.edge.devicetwin.feed import DeviceFeed
from modules.processes.common import kubeconfig_client
from modules.processes.common.backup.archive import Part, write_archive
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.support_bundle import machine
from modules.processes.edgecore import other_commands, process
from modules.processes.edgecore.cli import Recording
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.names import PROCESS_ENDPOINT
from modules.processes.edgecore.device_commands import calls
from modules.processes.edgecore.loopback import LoopbackWatch
from modules.processes.edgecore.owner_routes import DeviceRoutes
from modules.processes.edgecore.runtime_commands import connection
from modules.processes.edgecore.store_commands.database import opened
from modules.processes.edgecore.top import background, node_view, run
from modules.processes.edgecore.uninstall import pods
from modules.processes.edgecore.upgrade import replay_gate, sources, staging
from modules.processes.edgecore.upgrade.commands import prepared
from modules.processes.edgecore.upgrade.updater import files
from modules.processes.edgecore.upgrade.updater.__main__ import main as updater_main
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.node_control import LocalNodeControl
from modules.processes.edgecore.upgrade.updater.phases import Updater
from modules.processes.edgecore.upgrade.updater.processes import end_process
from modules.processes.edgecore.upgrade.updater.starting import resume
from tests.modules.processes.common.backup.test_archive import HEAD
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call
from tests.support.own_node import alone
from tests.support.ports import free_port


def _fail(*_: object, **__: object) -> Any:
    raise PlannedError


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """All processes that the test starts."""
    found: list[subprocess.Popen[bytes]] = []
    make = subprocess.Popen.__init__

    def init(process: subprocess.Popen[bytes], *args: Any, **kwargs: Any) -> None:
        make(process, *args, **kwargs)
        found.append(process)

    monkeypatch.setattr(subprocess.Popen, "__init__", init)
    return found


def test_a_program_whose_output_cannot_be_had_is_killed(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(machine, "_output", _fail)
    with pytest.raises(PlannedError):
        machine.command(("yes",))
    assert started[0].returncode == -9


def test_a_replay_that_cannot_be_bounded_is_killed(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """It would take all of the node's memory."""
    program = tmp_path / "edgecore"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setattr(os, "setpriority", _fail)
    with pytest.raises(PlannedError):
        replay_gate._replayed(program, tmp_path / "trace", float("inf"))
    assert started[0].returncode == -9


def test_an_archive_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    def make(failing: Failing) -> Attempt:
        directory = Path(mkdtemp(dir=tmp_path))

        def write() -> None:
            with failing.steps_of_files():
                write_archive(directory / "backup", HEAD, [Part("a/one", b"1")])

        return Attempt(write, left=lambda: [*directory.glob(".*/*")], is_repeatable=False)

    assert fail_at_each_call(make) >= 3
    with pytest.raises(BackupError):
        write_archive(tmp_path / "c", HEAD, [Part("a/one", b"1"), Part("b/two", tmp_path / "missing")])


def _ended(_: Path) -> Callable[[], object]:
    process = subprocess.Popen(["sleep", "60"])

    def end() -> None:
        end_process(process.pid)
        process.wait()

    return end


def _control(root: Path) -> LocalNodeControl:
    installation = Installation(root)
    installation.state.mkdir(exist_ok=True)
    return LocalNodeControl(installation, cast("Any", SimpleNamespace(lock=str(root / "lock"), unit="")))


def _going_back(root: Path) -> Callable[[], object]:
    node = SimpleNamespace(stopped=_control(root).stopped, start=lambda: None)
    installation = SimpleNamespace(roll_back=lambda _: root.stat())
    return lambda: Updater(cast("Any", installation), cast("Any", node))._go_back(cast("Any", None))


@pytest.mark.parametrize(
    ("prepare", "calls"),
    [
        (lambda root: lambda: files._sync(root, os.O_RDONLY), 2),
        (lambda root: lambda: owner_of(root / "lock"), 1),
        (lambda root: Installation(root).is_locked, 3),
        (lambda root: lambda: resume(Installation(root)), 4),
        (lambda root: lambda: updater_main([str(root)]), 4),
        (lambda root: _control(root)._starter, 2),
        (_going_back, 3),
        (_ended, 1),
    ],
    ids=["directory", "lock", "upgrade", "resumed", "carried out", "start", "back", "process"],
)
def test_a_failure_of_the_updater_leaves_nothing_open(
    tmp_path: Path, prepare: Callable[[Path], Callable[[], object]], calls: int
) -> None:
    (tmp_path / "lock").touch()

    def make(failing: Failing) -> Attempt:
        operation = prepare(tmp_path)

        def operate() -> None:
            with failing.kernel_calls():
                operation()

        return Attempt(operate)

    assert fail_at_each_call(make) >= calls


def test_a_node_that_is_not_waited_for_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
        before = census()
        monkeypatch.setattr(select, "select", _fail)
        with pytest.raises(PlannedError):
            end_process(started[0].pid)
        assert not census().more_than(before)


def test_the_terminal_is_as_before_a_question_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    monkeypatch.setattr(select, "select", _fail)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: controller))
    with pytest.raises(PlannedError):
        background._ask(terminal)
    monkeypatch.undo()
    assert termios.tcgetattr(terminal) == before
    for each in (controller, terminal):
        os.close(each)


def test_the_file_of_an_explanation_that_fails_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.touch()
    monkeypatch.setattr(node_view.SocketView, "_flight_recorder", lambda _: file)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        node_view.SocketView(cast("Any", None)).explain("default", "web")
    assert not file.exists()


def test_the_view_of_the_node_that_fails_asks_it_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    polling: list[Any] = []

    class App:
        """A view that fails when it has started."""

        def __init__(self, _view: object, *, light: bool, started: Callable[[Any], None]) -> None:
            self._started = started
            assert not light

        def run(self) -> None:
            """Start, and fail."""
            self._started(self)
            raise PlannedError

    poller = SimpleNamespace(start=lambda: polling.append(1), stop=polling.clear)
    monkeypatch.setattr(run, "TopApp", App)
    monkeypatch.setattr(run, "Poller", lambda *_: poller)
    with pytest.raises(PlannedError):
        run.run_app(cast("Any", None), 1.0, light=False)
    assert not polling


@pytest.mark.parametrize("is_inside", [True, False])
def test_the_runtime_is_left_whatever_happens_to_its_pods(monkeypatch: pytest.MonkeyPatch, *, is_inside: bool) -> None:
    opened: list[int] = []

    def client(*_: object, **__: object) -> Any:
        opened.append(1)
        return SimpleNamespace(close=opened.clear)

    monkeypatch.setattr(pods, "CriClient", client)
    monkeypatch.setattr("modules.processes.edgecore.container_runtime.start_container_runtime", lambda *_: None)
    config = SimpleNamespace(runs_container_runtime=is_inside, runtime_endpoint="unix:///r", image_endpoint="")
    before = census()
    with pytest.raises(PlannedError), pods._runtime(cast("Any", config)):
        assert opened
        raise PlannedError
    assert not opened
    assert not census().more_than(before)


def test_a_version_that_cannot_be_staged_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(tmp_path)
    installation.state.mkdir()
    with pytest.raises(PlannedError), prepared(installation, ()):
        raise PlannedError
    assert [each.name for each in installation.state.iterdir()] == ["lock"]
    shutil.rmtree(installation.state)

    def make(making: Path, *_: object) -> None:
        making.mkdir()
        raise MemoryError

    monkeypatch.setattr(staging, "make_environment", make)
    with pytest.raises(MemoryError):
        staging.stage((), b"", "1.0", cast("Any", SimpleNamespace(versions=tmp_path)), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_cannot_be_checked_is_fetched_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = list[str]()
    monkeypatch.setattr(sources, "read_manifest", _fail)
    with pytest.raises(PlannedError):
        sources.Download._check(
            cast("Any", SimpleNamespace(_keys=(), _forget=forgotten.append)), "edgecore.bundle", tmp_path, 0
        )
    assert forgotten == ["edgecore.bundle"]


def test_streams_of_commands_are_closed_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a cluster, to edgecore's log, and to the runtime; and the clock of a call."""
    closed = list[str]()

    def close(name: str) -> SimpleNamespace:
        return SimpleNamespace(**dict.fromkeys(("cancel", "close"), lambda: closed.append(name)), request=_fail)

    monkeypatch.setattr(kubeconfig_client, "_Pieces", lambda: SimpleNamespace(next=_fail))
    transport = SimpleNamespace(start=lambda *_: close("cluster"))
    client = SimpleNamespace(_transport=transport, _headers=())
    with pytest.raises(PlannedError):
        list(kubeconfig_client.KubeconfigClient.lines(cast("Any", client), "/"))
    monkeypatch.setattr(connection, "CriClient", lambda *_, **__: close("runtime"))
    with pytest.raises(PlannedError), connection.connected(cast("Any", None), tmp_path):
        raise PlannedError
    monkeypatch.setattr(calls, "RealClock", lambda: close("clock"))
    monkeypatch.setattr(calls, "perform", _fail)
    with pytest.raises(PlannedError):
        calls._asked(Namespace(device="default/thermo", method="set", port=1), "temperature", "21")
    assert closed == ["cluster", "runtime", "clock"]
    ours, theirs = socket.socketpair()
    feed = DeviceFeed()
    with pytest.raises(PlannedError):
        list(DeviceRoutes(Mock(), feed).watch(Mock()).pieces(Mock(gone_within=_fail)))
    assert not feed._listeners
    monkeypatch.setattr(node_view, "dial", lambda _: ours)
    with theirs, pytest.raises(NodeError, match="edgecore broke off"):
        theirs.sendall(b"no HTTP\r\n")
        list(node_view.SocketLog(tmp_path, "/").pieces())
    assert ours.fileno() < 0


def test_the_clock_of_a_page_that_cannot_be_served_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    clock = SimpleNamespace(close=lambda: closed.append("clock"), now_ms=lambda: 0)
    monkeypatch.setattr("beehive.clock.RealClock", lambda: clock)
    monkeypatch.setattr("modules.processes.edgecore.local.node.rest_client", _fail)
    with pytest.raises(PlannedError):
        other_commands.run(Namespace(allow=(), port=0))
    monkeypatch.setattr("modules.processes.edgecore.local.node.rest_client", lambda _: Mock(get=lambda _: {}))
    monkeypatch.setattr("modules.page.server.PageServer", _fail)
    with pytest.raises(PlannedError):
        other_commands.run(Namespace(allow=(), port=0))
    assert closed == ["clock"] * 2


def test_a_database_whose_reader_fails_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "edgecore.db"
    sqlite3.connect(file).close()
    before = census()
    with pytest.raises(PlannedError), opened(Namespace(database=str(file))) as reader:
        reader.path.stat()
        raise PlannedError
    assert not census().more_than(before)


@pytest.mark.parametrize("endpoint", [PROCESS_ENDPOINT, "unix:///none.sock"], ids=["inside", "beside"])
def test_what_a_node_has_opened_is_closed_when_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """With a runtime inside edgecore, and with another one: files, sockets, threads, timers."""
    for name in ("set_up", "set_up_malloc", "ServiceManager", "Shutdown", "print_remark"):
        monkeypatch.setattr(process, name, Mock())
    monkeypatch.setattr(LoopbackWatch, "reconcile", lambda _: None)
    threads, hook = Threads(), threading.excepthook
    hive = Hive(threads)
    monkeypatch.setattr(hive, "start", start := Mock(side_effect=OSError("no memory")))
    monkeypatch.setattr(process, "Hive", lambda _: hive)
    hive.clock.after(60.0, Mock()).cancel()  # its thread goes on
    before, recording = census((hive.clock,)), Recording(tmp_path / "trace", None)
    config, starting = _node(tmp_path / "node", endpoint), ExitStack()
    status = process.run(config, log_level=Mock(), log_format=Mock(), record=recording, starting=starting)
    assert (status, start.call_count) == (ExitCode.START_FAILED, 1)
    assert not census((hive.clock,)).more_than(before)
    assert not [each for each in tmp_path.rglob("*") if each.is_socket()]
    assert threading.excepthook is hook
    threads.close()


def _node(root: Path, endpoint: str) -> EdgeCoreConfig:
    """Return the configuration of a node that serves all that a node can serve."""
    config, change = alone(EdgeCoreConfig.below(root)), msgspec.structs.replace
    edged, meta = config.modules.edged, config.modules.meta_manager
    kubelet = change(
        edged.tailored_kubelet_config,
        container_runtime_endpoint=endpoint, read_only_port=free_port(), cgroups_per_qos=False,
    )  # fmt: skip
    meta = change(meta, meta_server=change(meta.meta_server, enable=True, server=f"127.0.0.1:{free_port()}"))
    edged = change(edged, tailored_kubelet_config=kubelet)
    return change(config, modules=change(config.modules, edged=edged, meta_manager=meta))
