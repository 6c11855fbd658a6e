"""A container registry on this machine with one image and a password.

It serves the requests of a pull (distribution API) over plain HTTP, which runtimes accept from 127.0.0.1.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.support.images import Image, parts
from tests.support.serving import ServedInThread

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"


class Registry(ServedInThread):
    """A registry with one image. Use as a context manager.

    Args:
        image: the image that it serves under any name and tag.
        user, password: required credentials.
    """

    def __init__(self, image: Image, user: str, password: str) -> None:
        config, layer = parts(image)
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(config, _CONFIG),
            "layers": [_described(layer, _LAYER)],
        }
        self.manifest = json.dumps(manifest).encode()
        self.blobs = {_digest(blob): blob for blob in (config, layer)}
        self.authorization = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        self.resolved = 0
        """Number of authenticated requests that resolve a tag: a pull begins with one."""
        self.refused = 0
        """Number of requests with wrong credentials."""
        self.answers = threading.Event()
        """While cleared, authenticated requests wait for their answer."""
        self.answers.set()
        outer = self

        class Handler(_Handler):
            registry = outer

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{server.server_address[1]}"
        super().__init__(server)

    def __exit__(self, *error: object) -> None:
        self.answers.set()
        super().__exit__(*error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def do_GET(self) -> None:
        """Manifests and blobs, by the end of the path."""
        authorization = self.headers.get("Authorization")
        if authorization != self.registry.authorization:
            self.registry.refused += authorization is not None
            self._answer(401, b"", "text/plain", ("WWW-Authenticate", 'Basic realm="test"'))
            return
        self.registry.answers.wait()
        last = self.path.rpartition("/")[2]
        if "/manifests/" in self.path:
            self.registry.resolved += self.command == "HEAD"
            self._answer(200, self.registry.manifest, _MANIFEST)
        elif "/blobs/" in self.path and last in self.registry.blobs:
            self._answer(200, self.registry.blobs[last], "application/octet-stream")
        else:
            self._answer(404 if self.path != "/v2/" else 200, b"", "text/plain")

    def do_HEAD(self) -> None:
        """Like `do_GET`, without a body."""
        self.do_GET()

    def log_message(self, *_arguments: object) -> None:
        """Be quiet."""

    def _answer(self, status: int, body: bytes, kind: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Type", kind), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _described(blob: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
