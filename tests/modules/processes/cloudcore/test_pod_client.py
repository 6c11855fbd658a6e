"""`cloudcore logs`, `exec`, `attach` and `port-forward`: what they ask the API server for, and what they say of its
refusals.
"""

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import RealClock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream
from beehive.http.router import HttpRoute, Router
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from tests.modules.processes.common.pod_commands.stub import pod

NO_STREAMS: dict[str, Any] = {"kind": "Status", "code": 501, "message": "the runtime has no streams"}
NO_TUNNEL = {"kind": "Status", "code": 503, "message": "no stream can be opened: node n1 (start --tunnel-listen)"}


class Server:
    """An API server with two pods and their logs, on a control socket."""

    def __init__(self, path: Path) -> None:
        self.asked: list[Request] = []
        self.refusal = NO_STREAMS
        """Of each request for the streams of a command or of ports."""
        path_of_pod = "/api/v1/namespaces/{namespace}/pods/{pod}"
        both = ("GET", "POST")
        routes = [
            HttpRoute("/api/v1/namespaces/{namespace}/pods", self._list),
            HttpRoute(path_of_pod, self._get),
            HttpRoute(f"{path_of_pod}/log", self._log),
            HttpRoute(f"{path_of_pod}/exec", self._refuse, both),
            HttpRoute(f"{path_of_pod}/attach", self._refuse, both),
            HttpRoute(f"{path_of_pod}/portforward", self._refuse, both),
        ]
        self.server = HttpServer(listen_unix(path), Router(routes), RealClock())
        self.server.start()

    def _list(self, request: Request) -> Reply:
        self.asked.append(request)
        pods = [pod("web", namespace="shop", labels={"app": "web"}), pod("two", "a", "b", namespace="shop")]
        return answer(200, {"kind": "PodList", "items": [each for each in pods if wants(request, each)]})

    def _get(self, request: Request) -> Reply:
        if request.parts[5] != "web":
            message = 'pods "other" not found'
            return answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": message})
        return answer(200, pod("web", "app", "side", namespace="shop"))

    def _log(self, request: Request) -> Reply:
        self.asked.append(request)
        return Stream("text/plain", lambda _: lines(request), lambda: None)

    def _refuse(self, request: Request) -> Reply:
        self.asked.append(request)
        return answer(self.refusal["code"], self.refusal)


def answer(status: int, value: dict[str, Any]) -> Response:
    return Response(status, "application/json", json.dumps(value).encode())


def wants(request: Request, listed: dict[str, Any]) -> bool:
    return request.first("labelSelector") in (
        "",
        *(f"{k}={v}" for k, v in listed["metadata"].get("labels", {}).items()),
    )


def lines(request: Request) -> Generator[bytes, None, None]:
    yield f"{request.parts[5]} {request.first('container')}\n".encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "cloudcore.sock")
    yield made
    made.server.stop()


def run(root: Path, command: str, *arguments: str) -> int:
    """The exit status of a command of this cloudcore."""
    try:
        return main([command, "--root", str(root), *arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


@pytest.mark.parametrize(
    ("arguments", "printed", "asked"),
    [
        (("-n", "shop", "web"), "web app\n", {"container": "app"}),
        (("shop/web", "side", "--tail", "2"), "web side\n", {"container": "side", "tailLines": "2"}),
        (("shop/web", "-c", "side", "-fp"), "web side\n", {"container": "side", "follow": "true", "previous": "true"}),
        (("-n", "shop", "-l", "app=web", "--prefix"), "[pod/web/app] web app\n",
         {"container": "app", "tailLines": "10"}),
    ],
)  # fmt: skip
def test_logs(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], printed: str,
    asked: dict[str, str],
) -> None:  # fmt: skip
    assert run(tmp_path, "logs", *arguments) == ExitCode.OK
    assert capsys.readouterr().out == printed
    request = server.asked[-1]
    assert request.parts == ("api", "v1", "namespaces", "shop", "pods", "web", "log")
    names = ("container", "tailLines", "follow", "previous")
    assert {name: request.first(name) for name in names if request.first(name)} == asked


@pytest.mark.parametrize(
    ("words", "subresource", "asked"),
    [
        (("exec", "shop/web", "--", "ls", "-l", "a b"), "exec",
         {"container": ("app",), "command": ("ls", "-l", "a b"), "stdin": ()}),
        (("exec", "-i", "-c", "side", "shop/web", "--", "sh"), "exec",
         {"container": ("side",), "stdin": ("1",), "stdout": ("1",), "stderr": ("1",)}),
        (("attach", "shop/web"), "attach", {"container": ("app",), "stdout": ("1",), "stdin": ()}),
        (("port-forward", "shop/web", ":80"), "portforward", {"container": ()}),
        (("cp", "shop/web:/etc/hosts", "hosts"), "exec", {"container": ("app",), "stdout": ("1",)}),
    ],
)  # fmt: skip
def test_streams_use_the_words_of_the_api(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], subresource: str,
    asked: dict[str, tuple[str, ...]],
) -> None:  # fmt: skip
    """A runtime without streams is an error."""
    assert run(tmp_path, *words) == ExitCode.REFUSED
    assert "cloudcore: error: the runtime has no streams" in capsys.readouterr().err
    request = server.asked[-1]
    assert request.parts == ("api", "v1", "namespaces", "shop", "pods", "web", subresource)
    assert {name: request.all(name) for name in asked} == asked


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("logs", "shop/other"), ExitCode.REFUSED, 'pods "other" not found'),
        (("logs", "shop/web", "none"), ExitCode.REFUSED, "no container none in pod: shop/web (it has app, side)"),
        (("logs",), ExitCode.USAGE, "POD [CONTAINER] is wanted"),
        (("exec", "shop/web"), ExitCode.USAGE, "cloudcore exec POD -- COMMAND"),
        (("exec", "shop/web", "--", "ls"), ExitCode.REFUSED, "start --tunnel-listen"),
    ],
)
def test_refusals_are_one_line(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, says: str
) -> None:
    server.refusal = NO_TUNNEL
    assert run(tmp_path, *words) == status
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("cloudcore: error: ")
    assert says in said


def test_nobody_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "logs", "web") == ExitCode.REFUSED
    assert "is `cloudcore run` running, with this --root?" in capsys.readouterr().err
