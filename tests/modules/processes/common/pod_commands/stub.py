"""An edgecore that knows some pods, on its owner's socket."""

import json
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from beehive import RealClock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream, Takeover, text
from beehive.http.router import HttpRoute, Router
from modules.processes.edgecore.cli import main


def running(name: str, **fields: Any) -> dict[str, Any]:
    """The status of a container that runs."""
    return {"name": name, "ready": True, "restartCount": 0, "state": {"running": {}}, **fields}


def pod(name: str, *containers: str, namespace: str = "ns", **meta: Any) -> dict[str, Any]:
    """A running pod; further fields go into its metadata."""
    names = containers or ("app",)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-20T05:00:00Z", **meta},
        "spec": {"containers": [{"name": each, "image": f"{each}:1", "ports": []} for each in names]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running(each) for each in names]},
    }


class Stub:
    """Serves the paths that the commands use, and notes the requests."""

    def __init__(self, root: Path, *pods: dict[str, Any]) -> None:
        self.asked: list[Request] = []
        self.pods = list(pods)
        self.stats: list[dict[str, Any]] = []
        directory = root / "edged"
        directory.mkdir()
        container = "{namespace}/{pod}/{container}"
        routes = [
            HttpRoute("/metrics", lambda _: Response(HTTPStatus.OK, "text/plain", b"# HELP a one\na 1\n")),
            HttpRoute("/pods", self._list),
            HttpRoute("/api/v1/pods", self._list),
            HttpRoute("/api/v1/namespaces/{namespace}/pods", self._list),
            HttpRoute("/api/v1/nodes/{name}", self._node),
            HttpRoute("/stats/summary", self._stats),
            HttpRoute(f"/containerLogs/{container}", self._log),
            HttpRoute(f"/exec/{container}", self._refuse, ("GET", "POST")),
            HttpRoute(f"/attach/{container}", self._hang_up, ("GET", "POST")),
            HttpRoute("/portForward/{namespace}/{pod}", self._refuse, ("GET", "POST")),
        ]
        self.server = HttpServer(listen_unix(directory / "edged.sock"), Router(routes), RealClock())
        self.server.start()

    def _list(self, request: Request) -> Reply:
        self.asked.append(request)
        namespace = request.parts[3] if len(request.parts) == 5 else ""
        wanted = request.first("labelSelector")
        items = [
            each
            for each in self.pods
            if namespace in ("", each["metadata"]["namespace"])
            and (not wanted or wanted in [f"{k}={v}" for k, v in each["metadata"].get("labels", {}).items()])
        ]
        return _json({"kind": "PodList", "apiVersion": "v1", "items": items})

    def _node(self, request: Request) -> Reply:
        status = {"allocatable": {"cpu": "2", "memory": "1024Mi"}}
        return _json({"kind": "Node", "metadata": {"name": request.parts[3]}, "status": status})

    def _stats(self, _request: Request) -> Reply:
        return _json(self.stats.pop(0))

    def _log(self, request: Request) -> Reply:
        self.asked.append(request)
        if request.parts[3] == "bad":
            return text(400, "the container is waiting to start\n")
        return Stream("text/plain", lambda _: _pieces(request.parts[3]), lambda: None)

    def _refuse(self, request: Request) -> Reply:
        self.asked.append(request)
        return text(501, "this runtime has no streams\n")

    def _hang_up(self, request: Request) -> Reply:
        self.asked.append(request)
        return Takeover(lambda _: None, lambda: None)


def _json(value: dict[str, Any]) -> Response:
    return Response(200, "application/json", json.dumps(value).encode())


def _pieces(container: str) -> Generator[bytes, None, None]:
    yield f"{container} o".encode()
    yield b"ne\ntwo\n"


def run(root: Path, command: str, *arguments: str) -> int:
    """The exit status of `edgecore command --root root arguments`."""
    try:
        return main([command, "--root", str(root), *arguments])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
