"""The commands that ask the node: what they understand, what they print, and what they say when it does not work."""

import argparse
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import RealClock
from edged.api import Pod, encode, from_value
from edged.api.pods import PodList
from edged.server.http import HttpServer
from edged.server.listening import listen_unix
from edged.server.request import Request
from edged.server.responses import Reply, Stream, Takeover, json, text
from edged.server.router import Route, Router
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.local.logs import wanted
from modules.processes.edgecore.local.pods import age, row, state, table


def status(**fields: Any) -> dict[str, Any]:
    return {"name": "app", "ready": False, "restartCount": 0, "state": {"running": {}}, **fields}


def pod(*statuses: dict[str, Any], **fields: Any) -> Pod:
    made = {
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2026-11-20T05:00:00Z"},
        "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "containerStatuses": list(statuses), **fields},
    }
    return from_value(Pod, made)


BEGUN = 1795150800.0
WAITING = status(state={"waiting": {"reason": "CrashLoopBackOff"}})


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (pod(status(ready=True)), "Running"),
        (pod(WAITING), "CrashLoopBackOff"),
        (pod(status(state={"terminated": {"exitCode": 0, "reason": "Completed"}})), "Completed"),
        (pod(status(state={"terminated": {"exitCode": 3}})), "ExitCode:3"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(phase="Pending"), "Pending"),
        (pod(phase=""), "Pending"),
        (pod(initContainerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 0}}},
                                    {"name": "b", "state": {"running": {}}}]), "Init:1/2"),
        (pod(initContainerStatuses=[{"name": "a", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
         "Init:Error"),
        (pod(initContainerStatuses=[{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}]), "Init:0/1"),
        (pod(status(), initContainerStatuses=[{"name": "a", "started": True, "state": {"running": {}}}]), "Running"),
    ],
)  # fmt: skip
def test_one_word_says_how_a_pod_is(one: Pod, word: str) -> None:
    assert state(one) == word


def test_a_pod_in_a_row() -> None:
    one = pod(status(ready=True, restartCount=2), podIP="10.0.0.1")
    assert row(one, BEGUN + 300) == ("ns", "p", "1/1", "Running", "2", "5m", "10.0.0.1")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (86_400, "1d")],
)
def test_ages_in_their_largest_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert table([("A", "B"), ("long", "b"), ("x", "")]) == ["A      B", "long   b", "x"]


def chosen(**options: Any) -> argparse.Namespace:
    off = {"follow": False, "previous": False, "timestamps": False, "tail": None, "since": None}
    return argparse.Namespace(**{**off, **options})


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, []),
        ({"follow": True, "tail": 0}, [("follow", "true"), ("tailLines", "0")]),
        ({"since": "1h30m", "previous": True}, [("previous", "true"), ("sinceSeconds", "5400")]),
        ({"since": "10ms"}, [("sinceSeconds", "1")]),
        ({"since": "2026-11-20T05:42:16Z"}, [("sinceTime", "2026-11-20T05:42:16Z")]),
    ],
)
def test_options_become_a_query(options: dict[str, Any], query: list[tuple[str, str]]) -> None:
    assert wanted(chosen(**options)) == query


class Stub:
    """An edgecore that knows one pod."""

    def __init__(self, root: Path) -> None:
        self.asked: list[Request] = []
        self.pod = pod(status(ready=True))
        directory = root / "edged"
        directory.mkdir()
        container = "{namespace}/{pod}/{container}"
        routes = [
            Route("/pods", lambda _: json(encode(PodList(items=(self.pod,))))),
            Route(f"/containerLogs/{container}", self._log),
            Route(f"/exec/{container}", self._refuse),
            Route(f"/attach/{container}", self._hang_up),
            Route(f"/run/{container}", self._run, ("POST",)),
        ]
        self.server = HttpServer(listen_unix(directory / "edged.sock"), Router(routes), RealClock())
        self.server.start()

    def _log(self, request: Request) -> Reply:
        self.asked.append(request)
        return Stream("text/plain", lambda _: _pieces(), lambda: None)

    def _refuse(self, request: Request) -> Reply:
        self.asked.append(request)
        return text(501, "this runtime has no streams\n")

    def _run(self, request: Request) -> Reply:
        self.asked.append(request)
        return json(b'{"stdout":"b3V0","stderr":"ZXJy","exit_code":3}')

    def _hang_up(self, request: Request) -> Reply:
        self.asked.append(request)
        return Takeover(lambda _: None, lambda: None)


def _pieces() -> Generator[bytes, None, None]:
    yield b"one\n"
    yield b"two\n"


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    made = Stub(tmp_path)
    yield made
    made.server.stop()


def run(root: Path, command: str, *arguments: str) -> int:
    """The exit status of `edgecore command --root root arguments`."""
    try:
        return main([command, "--root", str(root), *arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def test_pods_are_listed(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "pods") == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert lines[1].split()[:5] == ["ns", "p", "1/1", "Running", "0"]


def test_a_log_is_printed(stub: Stub, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Of the pod's only container, although it is not named."""
    assert run(tmp_path, "logs", "--tail", "5", "ns/p") == ExitCode.OK
    assert capfdbinary.readouterr().out == b"one\ntwo\n"
    assert (stub.asked[0].path, stub.asked[0].query) == ("/containerLogs/ns/p/app", (("tailLines", "5"),))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("logs", "other"), "no such pod"),
        (("logs", "ns/p", "--since", "soon"), "--since"),
        (("exec", "-i", "ns/p", "--", "ls", "-l"), "no streams"),
        (("attach", "ns/p"), "does not agree"),
        (("exec", "-t", "ns/p", "--", "sh"), "needs a terminal"),
    ],
)
def test_what_does_not_work_is_said(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    command, *rest = arguments
    assert run(tmp_path, command, *rest) == ExitCode.REFUSED
    assert says in capsys.readouterr().err


def test_without_streams_a_command_is_run_to_its_end(
    stub: Stub, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(tmp_path, "exec", "ns/p", "--", "ls", "a b") == 3
    assert capfdbinary.readouterr() == (b"out", b"err")
    assert stub.asked[-1].all("command") == ("ls", "a b")


def test_a_command_is_asked_for_word_by_word(stub: Stub, tmp_path: Path) -> None:
    run(tmp_path, "exec", "-i", "-c", "a b", "ns/p", "--", "sh", "-c", "echo a b")
    (request,) = stub.asked
    assert (request.parts[3], request.all("command")) == ("a b", ("sh", "-c", "echo a b"))
    assert [request.flag(name) for name in ("input", "output", "error", "tty")] == [True, True, True, False]


def test_an_edgecore_that_does_not_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edged").mkdir()
    assert run(tmp_path, "pods") == ExitCode.REFUSED
    assert "is it running?" in capsys.readouterr().err


def test_a_file_that_is_none_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["pods", "--config", str(tmp_path / "none.yaml")])
    assert end.value.code == ExitCode.CONFIGURATION


@pytest.mark.parametrize("arguments", [["logs", "a/b/c"], ["logs", "/p"], ["logs", "p", "--tail", "-1"], ["exec", "p"]])
def test_a_wrong_command_line(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == ExitCode.USAGE
