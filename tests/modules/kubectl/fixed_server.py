"""A read-only Kubernetes API server of fixed objects, against which the real kubectl can be run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.serving import ServedInThread

JsonObject = dict[str, Any]

KINDS: Final = {
    ("v1", "Pod"): ("pods", True, "po"),
    ("v1", "Node"): ("nodes", False, "no"),
    ("v1", "ConfigMap"): ("configmaps", True, "cm"),
    ("v1", "Secret"): ("secrets", True, ""),
    ("v1", "Event"): ("events", True, "ev"),
    ("v1", "Service"): ("services", True, "svc"),
    ("v1", "Endpoints"): ("endpoints", True, "ep"),
    ("v1", "Namespace"): ("namespaces", False, "ns"),
    ("v1", "ServiceAccount"): ("serviceaccounts", True, "sa"),
    ("v1", "PersistentVolume"): ("persistentvolumes", False, "pv"),
    ("v1", "PersistentVolumeClaim"): ("persistentvolumeclaims", True, "pvc"),
    ("coordination.k8s.io/v1", "Lease"): ("leases", True, ""),
    ("devices.kubeedge.io/v1beta1", "Device"): ("devices", True, ""),
}


@contextmanager
def real_kubectl(objects: Sequence[JsonObject]) -> Iterator[RealKubectl]:
    """The real kubectl with a server of these objects; the test is skipped where there is no kubectl."""
    server = _Server(("127.0.0.1", 0), _handler(objects))
    with ServedInThread(server), found_kubectl(server.server_address[1]) as kubectl:
        yield kubectl


@contextmanager
def found_kubectl(port: int) -> Iterator[RealKubectl]:
    """The real kubectl with a server on a port of this machine; the test is skipped where there is no kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl on this machine")
    with tempfile.TemporaryDirectory() as home:
        yield RealKubectl(program, port, Path(home))


class _Server(ThreadingHTTPServer):
    """Takes as many connections at a time as commands run beside each other."""

    daemon_threads = False
    request_queue_size = 128


class RealKubectl:
    """The program with its server's address."""

    def __init__(self, program: str, port: int, home: Path) -> None:
        self._command = [program, f"--server=http://127.0.0.1:{port}", f"--cache-dir={home}/cache"]
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}

    def run(self, *arguments: str, status: int = 0) -> str:
        """Standard output of one command, or its standard error if it ends with another `status` than 0."""
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) == (status != 0), done.stdout + done.stderr
        return done.stderr if status else done.stdout


def _handler(objects: Sequence[JsonObject]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            status, body = _answer(objects, url.path, parse_qs(url.query))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    return Handler


def _answer(objects: Sequence[JsonObject], path: str, query: dict[str, list[str]]) -> tuple[int, JsonObject]:
    parts = path.strip("/").split("/")
    if path == "/api":
        return 200, {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = sorted({version for version, _ in KINDS if "/" in version})
        return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(version) for version in groups]}
    version, rest = ("v1", parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    if not rest:
        return 200, _resources(version)
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = next((kind for (group, kind), entry in KINDS.items() if group == version and entry[0] == rest[0]), None)
    found = [
        obj
        for obj in objects
        if (obj["apiVersion"], obj["kind"]) == (version, kind)
        and namespace in (None, obj["metadata"].get("namespace"))
        and _selected(obj, query.get("fieldSelector", [""])[0])
    ]
    if len(rest) == 1:
        return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": found}
    named = [obj for obj in found if obj["metadata"]["name"] == rest[1]]
    if kind is None or not named:
        return 404, _missing(rest)
    return 200, named[0]


def _selected(obj: JsonObject, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        path, _, wanted = term.partition("=")
        found: Any = obj
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if path.endswith("!"):
            continue
        if str(found or "") != wanted.lstrip("="):
            return False
    return True


def _missing(rest: list[str]) -> JsonObject:
    text = f'{rest[0]} "{rest[-1]}" not found'
    details = {"name": rest[-1], "kind": rest[0]}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": text, "details": details}  # fmt: skip


def _group(version: str) -> JsonObject:
    name, _, short = version.partition("/")
    one = {"groupVersion": version, "version": short}
    return {"name": name, "versions": [one], "preferredVersion": one}


def _resources(version: str) -> JsonObject:
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
         "verbs": ["get", "list", "watch"], "shortNames": [short] if short else []}
        for (group, kind), (plural, namespaced, short) in KINDS.items()
        if group == version
    ]  # fmt: skip
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
