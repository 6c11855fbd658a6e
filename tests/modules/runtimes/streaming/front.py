"""What stands between a client and the streaming server: an API server's paths, and edged's, with bytes passed on.

edged and an API server do the same: they ask the runtime for an address, and relay the connection to it.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from modules.runtimes.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

POD = {
    "kind": "Pod", "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "app", "image": "x", "stdin": True, "ports": [{"containerPort": 80}]}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [{"name": "app", "ready": True, "state": {"running": {}}, "image": "x", "imageID": "x",
                               "restartCount": 0}],
    },
}  # fmt: skip

DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList", "groupVersion": "v1",
        "resources": [{"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}],
    },
}  # fmt: skip


class Front:
    """A socket whose connections reach a streaming server. A context manager."""

    def __init__(self, server: StreamingServer, path: Path | None = None) -> None:
        self._server = server
        if path is None:
            self._listening = socket.create_server(("127.0.0.1", 0))
        else:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(path))
            self._listening.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """Of the socket."""
        return int(self._listening.getsockname()[1])

    def __enter__(self) -> Front:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def url(self, target: str) -> str:
        """The address for a request: `/exec/NS/POD/CONTAINER?…`, or `…/pods/POD/exec?…`."""
        path, query = urlsplit(target).path.lower(), parse_qs(urlsplit(target).query)

        def flag(*names: str) -> bool:
            return any(query.get(name, [""])[0] in ("1", "true") for name in names)

        streams = {
            "stdin": flag("input", "stdin"), "stdout": flag("output", "stdout"), "tty": flag("tty"),
            "stderr": flag("error", "stderr") and not flag("tty"),
        }  # fmt: skip
        container = query.get("container", ["app"])[0]
        if "portforward" in path:
            ports = [int(each) for each in query.get("port", [])]
            return self._server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="sandbox", port=ports))
        if "attach" in path:
            return self._server.attach_url(cri.AttachRequest(container_id=container, **streams))
        return self._server.exec_url(cri.ExecRequest(container_id=container, cmd=query["command"], **streams))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := client.recv(1)):
                    return
                head += piece
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            if b"upgrade:" not in head.lower():
                self._answer(client, target)
                return
            url = urlsplit(self.url(target))
            with socket.create_connection((url.hostname or "", url.port or 0)) as server:
                server.sendall(f"{method} {url.path} HTTP/1.1\r\n".encode() + head.split(b"\r\n", 1)[1])
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()

    def _answer(self, client: socket.socket, target: str) -> None:
        body = json.dumps(DISCOVERY.get(target.partition("?")[0], POD)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        client.sendall(head.encode() + b"\r\n\r\n" + body)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
