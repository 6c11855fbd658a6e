"""What cloudcore's streams, files and databases are left with when a call fails half-way."""

import socket
import threading
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest

from beehive.files.durable import put_in_place
from beehive.http.responses import Stream, Takeover
from modules.page.server import PageServer
from modules.page.shells import ShellTarget
from modules.processes.cloudcore import (
    backup_commands,
    cluster_facts,
    doctor_command,
    in_process_client,
    page_command,
    process,
    support_command,
)
from modules.processes.cloudcore.control import Control
from modules.processes.cloudcore.in_process_client import InProcessClient
from modules.processes.cloudcore.page_doors import UserDoor, _carry_on
from modules.processes.cloudcore.process import CloudCore, RunOptions
from modules.processes.common import page_options
from modules.processes.common.backup import replacement
from modules.processes.common.backup.replacement import Replacement, replace_all
from modules.processes.common.exit_codes import ExitCode
from modules.processes.demo import command as demo
from tests.support.failing import Failing, census

NOTHING: Any = None


def _fail(*_: object, **__: object) -> Any:
    raise MemoryError


@pytest.mark.parametrize("owner", [socket, threading.Thread], ids=["socket", "thread"])
def test_a_shell_that_cannot_be_carried_on_ends_at_the_node(monkeypatch: pytest.MonkeyPatch, owner: object) -> None:
    """Its command would run for nobody."""
    ended = list[str]()
    reply = Takeover(_fail, lambda: ended.append("command"))
    door = UserDoor("alice", NOTHING, cast("Any", SimpleNamespace(serve=lambda _: reply)), NOTHING)
    monkeypatch.setattr("modules.processes.cloudcore.page_doors.request_of", lambda *_, **__: None)
    before = census()
    monkeypatch.setattr(owner, "socketpair" if owner is socket else "start", _fail)
    with pytest.raises(MemoryError) as caught:
        door.open(ShellTarget("default", "web", "main"), ())
    assert (ended, census().more_than(before)) == (["command"], [])
    assert caught.value is not None, "what the error holds is not collected before"


def test_a_stream_that_fails_ends_at_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()
    ours, theirs = socket.socketpair()
    with ours, pytest.raises(MemoryError):
        _carry_on(Takeover(_fail, lambda: ended.append("command")), theirs)
    assert theirs.fileno() < 0
    ours, theirs = socket.socketpair()
    with ours:
        _carry_on(Takeover(Failing(0).call(print), lambda: ended.append("shell that is gone")), theirs)
        assert theirs.fileno() < 0
    logs = Stream("", lambda _: (_fail() for _ in "x"), lambda: ended.append("log"))
    monkeypatch.setattr(in_process_client, "answered", lambda *_: logs)
    client = InProcessClient(NOTHING, NOTHING, NOTHING)
    for call in (lambda: client.exchange("GET", "/", b"", "", 1), lambda: list(client.lines("/"))):
        with pytest.raises(MemoryError):
            call()
    assert ended == ["command", "shell that is gone", "log", "log"]


def test_a_socket_is_closed_when_a_port_cannot_be_listened_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    control = SimpleNamespace(
        _path=tmp_path, _servers=[], _listeners=[SimpleNamespace(start=_fail)], clock=SimpleNamespace(monotonic=None),
        service=_nothing,
        _audited=_nothing, _access=_nothing, _close=lambda: closed.append("socket"),
    )  # fmt: skip
    server = SimpleNamespace(start=lambda: None)
    for name in ("listening_socket", "HttpServer"):
        monkeypatch.setattr(f"modules.processes.cloudcore.control.{name}", lambda *_, **__: server)
    with pytest.raises(MemoryError):
        Control.on_start(cast("Any", control))
    assert closed == ["socket"]


def _nothing(*_: object) -> None:
    pass


def test_databases_are_closed_when_a_module_does_not_stop() -> None:
    closed = list[str]()
    core = cast("Any", CloudCore.__new__(CloudCore))
    core.hive = SimpleNamespace(stop=_fail)
    core._counters = SimpleNamespace(audit=SimpleNamespace(close=lambda: closed.append("audit")))
    core._clock = SimpleNamespace(close=lambda: closed.append("clock"))
    core._databases = [SimpleNamespace(close=lambda: closed.append("database"))]
    with pytest.raises(MemoryError):
        core.stop()
    assert closed == ["audit", "clock", "database"]


def test_everything_is_closed_although_the_audit_log_cannot_be() -> None:
    closed = list[str]()
    core = cast("Any", CloudCore.__new__(CloudCore))
    core.hive = SimpleNamespace(stop=lambda: closed.append("hive"))
    core._counters = SimpleNamespace(audit=SimpleNamespace(close=_fail))
    core._clock = SimpleNamespace(close=lambda: closed.append("clock"))
    core._databases = [SimpleNamespace(close=partial(closed.append, each)) for each in ("objects", "states")]
    with pytest.raises(MemoryError):
        core.stop()
    assert closed == ["hive", "clock", "objects", "states"]


def test_a_cloudcore_that_cannot_say_that_it_runs_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its threads would run on without their main thread: nobody would ever be told where it listens."""
    for name in ("Shutdown", "ServiceManager", "_allow_many_files", "set_up_malloc", "Watch", "MemoryTrimmer"):
        monkeypatch.setattr(process, name, Mock())
    monkeypatch.setattr(process, "collect_rarely", _fail)
    cloud = Mock(addresses=[("127.0.0.1", 1)], urls=())
    monkeypatch.setattr(process, "CloudCore", lambda _: cloud)
    options = RunOptions(cast("Any", SimpleNamespace(control_socket="")), tmp_path / "missing" / "ready")
    assert process.run(options) == ExitCode.START_FAILED
    cloud.start.assert_called_once_with()
    cloud.stop.assert_called_once_with()
    assert "No such file" in capsys.readouterr().err


def test_a_page_whose_address_cannot_be_printed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    page = cast("Any", PageServer.__new__(PageServer))
    page._api, page._server = SimpleNamespace(close=_fail), SimpleNamespace(stop=lambda: closed.append("server"))
    monkeypatch.setattr(page_options, "_print_address", Failing(0, BrokenPipeError()).call(print))
    monkeypatch.setattr("modules.processes.common.shutdown.Shutdown", Mock())
    with pytest.raises(MemoryError):
        page_options.serve_page(page)
    assert closed == ["server"]


@pytest.mark.parametrize("at", range(4))
def test_files_that_cannot_be_replaced_in_any_way_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Also after an error that is not the disk's; nothing lies beside them."""
    (tmp_path / "new").write_text("new")
    wanted = [Replacement(tmp_path / "new", tmp_path / "state" / name) for name in ("a", "b")]
    (tmp_path / "state").mkdir()
    for each in wanted:
        each.target.write_text("old")
    put = Failing(at, MemoryError()).call(put_in_place)
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(replacement, "put_in_place", put)
        replace_all(wanted, "before")
    assert {each.name: each.read_text() for each in (tmp_path / "state").iterdir()} == {"a": "old", "b": "old"}


_SUPPORT = Namespace(root=Path("/"), socket=None, database="", tls_dir=None, since="1h", no_logs=True, output=None)


@pytest.mark.parametrize(
    ("command", "opened", "fails"),
    [
        (
            lambda: backup_commands._record_restore(Path(), "", ""),
            ["modules.cloud.journal.database.JournalDatabase"],
            "modules.cloud.journal.writes.WriteStore",
        ),
        (
            lambda: cluster_facts.cluster_facts(Path(), "", "", keeps_state=False),
            [f"{cluster_facts.__name__}.http_transport", f"{cluster_facts.__name__}.RealClock"],
            f"{cluster_facts.__name__}._gathered",
        ),
        (
            lambda: doctor_command._database_server("postgresql://server/database"),
            ["modules.cloud.storage.database.engine.make_engine"],
            "modules.cloud.storage.database.engine.is_local_or_verified",
        ),
        (
            lambda: page_command.run(Namespace(allow=(), kubeconfig=Path(), context="")),
            [f"{page_command.__name__}.cluster_of", "beehive.clock.RealClock"],
            f"{page_command.__name__}.cluster_api",
        ),
        (
            lambda: support_command._write(_SUPPORT),
            ["beehive.clock.RealClock"],
            "modules.processes.common.support_bundle.bundle.make_bundle",
        ),
        (lambda: demo.main(["--processes"]), [f"{demo.__name__}.DemoCluster"], f"{demo.__name__}.Demo"),
    ],
    ids=["restore", "cluster", "database", "page", "bundle", "demo"],
)
def test_what_a_command_has_opened_is_closed_after_an_error(
    monkeypatch: pytest.MonkeyPatch, command: Callable[[], object], opened: list[str], fails: str
) -> None:
    closed = list[str]()
    monkeypatch.setattr(cluster_facts, "reading", Mock())
    monkeypatch.setattr(cluster_facts, "_certificate_left", lambda *_: None)
    for name in opened:
        double = MagicMock()
        double.close = double.dispose = partial(closed.append, name)
        double.__exit__.side_effect = lambda *_, name=name: closed.append(name)
        double.__iter__.return_value = iter((None, double))
        monkeypatch.setattr(name, lambda *_, double=double: double)
    monkeypatch.setattr(fails, _fail)
    with pytest.raises(MemoryError):
        command()
    assert closed == opened
