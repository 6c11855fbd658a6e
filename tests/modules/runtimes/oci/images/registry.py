"""A registry of the tests' own, which serves images well, and lies, stalls and redirects when told to."""

import base64
import datetime as dt
import gzip
import ipaddress
import json
import re
import ssl
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.modules.runtimes.oci.images.tars import ARCHITECTURE, config_of, described, encoded, sha256
from tests.support.serving import ServedInThread

OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
DOCKER_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
OCI_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_LAYER: Final = "application/vnd.docker.image.rootfs.diff.tar.gzip"

USER, PASSWORD, TOKEN = "user", "secret", "granted"


class Seen(NamedTuple):
    """One request."""

    method: str
    path: str
    authorization: str
    range: str


Fault = Callable[["Handler"], bool]
"""Answers a request in another way; False lets it be answered well."""


class TestRegistry(ServedInThread):
    """Serves on a port of 127.0.0.1. Use as a context manager.

    Args:
        certificate: file with key and certificate, for TLS.
        wants: "", "basic" or "bearer".
        anonymous: whether the token server gives tokens without credentials.
    """

    __test__ = False

    def __init__(self, certificate: Path | None = None, wants: str = "", *, anonymous: bool = False) -> None:
        self.manifests: dict[str, tuple[bytes, str]] = {}
        self.blobs: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.seen: list[Seen] = []
        self.wants = wants
        self.anonymous = anonymous
        self.realm = ""
        self.lifetime = 300
        self.released = threading.Event()
        """Ends what stalls."""
        outer = self

        class _Bound(Handler):
            registry = outer

        server = _QuietServer(("127.0.0.1", 0), _Bound)
        server.daemon_threads = True
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        super().__init__(server)
        self.address = f"127.0.0.1:{server.server_address[1]}"

    def __exit__(self, *error: object) -> None:
        self.released.set()
        super().__exit__(*error)

    def add(
        self,
        layers: Sequence[bytes],
        tag: str = "1",
        *,
        docker: bool = False,
        pack: Callable[[bytes], bytes] | None = None,
        **settings: Any,
    ) -> str:
        """Add an image of plain layers; return the digest of its manifest."""
        packed = [(pack or (lambda layer: gzip.compress(layer, 1)))(each) for each in layers]
        config = config_of(layers, **settings)
        kind = DOCKER_MANIFEST if docker else OCI_MANIFEST
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": described(config, DOCKER_CONFIG if docker else OCI_CONFIG),
            "layers": [described(each, DOCKER_LAYER if docker else OCI_LAYER) for each in packed],
        }
        self.blobs.update({sha256(each): each for each in (config, *packed)})
        return self.put(encoded(manifest), kind, tag)

    def add_index(self, entries: Sequence[dict[str, Any]], tag: str, *, docker: bool = False) -> str:
        """Add an index of descriptors; return its digest."""
        kind = DOCKER_LIST if docker else OCI_INDEX
        return self.put(encoded({"schemaVersion": 2, "mediaType": kind, "manifests": list(entries)}), kind, tag)

    def put(self, content: bytes, kind: str, tag: str) -> str:
        """Serve a document under a tag and its digest; return that."""
        digest = sha256(content)
        self.manifests[tag] = self.manifests[digest] = (content, kind)
        return digest

    def entry(self, digest: str, architecture: str = ARCHITECTURE, **platform: str) -> dict[str, Any]:
        """The descriptor of a document with a platform."""
        content, kind = self.manifests[digest]
        return {**described(content, kind), "platform": {"os": "linux", "architecture": architecture, **platform}}

    def layer_digests(self, tag: str = "1") -> list[str]:
        """The digests of the layers of an image."""
        return [each["digest"] for each in json.loads(self.manifests[tag][0])["layers"]]

    def fail(self, path: str, *faults: Fault) -> None:
        """Answer the next requests whose path ends so with these faults, one each."""
        self.faults[path] = list(faults)

    def paths(self, part: str = "") -> list[str]:
        """The paths asked so far that contain `part`."""
        return [each.path for each in self.seen if part in each.path]


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that ended in the middle is no error here."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    registry: TestRegistry

    def do_GET(self) -> None:
        """Tokens, manifests, blobs."""
        self._answer_request(b"")

    def do_HEAD(self) -> None:
        """What a tag is."""
        self._answer_request(b"")

    def do_POST(self) -> None:
        """Tokens for identity tokens."""
        self._answer_request(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> bool:
        """Answer; `_` in a header's name stands for a hyphen."""
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def _answer_request(self, body: bytes) -> None:
        registry = self.registry
        path = urlsplit(self.path).path
        authorization = self.headers.get("Authorization") or ""
        registry.seen.append(Seen(self.command, self.path, authorization, self.headers.get("Range") or ""))
        for end, faults in registry.faults.items():
            if path.endswith(end) and faults and faults.pop(0)(self):
                return
        if path == "/token":
            self._token(body, authorization)
        elif not self._may(authorization):
            self._challenge()
        else:
            self._content(path)

    def _may(self, authorization: str) -> bool:
        right = {"": authorization, "basic": basic(USER, PASSWORD), "bearer": f"Bearer {TOKEN}"}
        return authorization == right[self.registry.wants]

    def _challenge(self) -> None:
        realm = self.registry.realm or f"{self.registry.scheme}://{self.registry.address}/token"
        scope = "repository:team/app:pull"
        bearer = f'Bearer realm="{realm}",service="a \\"quoted\\" service",scope="{scope}",error="insufficient_scope"'
        self.reply(
            401, WWW_Authenticate='Basic realm="x"' if self.registry.wants == "basic" else f"Negotiate, {bearer}"
        )

    def _token(self, body: bytes, authorization: str) -> None:
        fields = parse_qs(body.decode() or urlsplit(self.path).query)
        right = fields["service"] == ['a "quoted" service'] and fields["scope"] == ["repository:team/app:pull"]
        known = authorization == basic(USER, PASSWORD) or fields.get("refresh_token") == [TOKEN]
        if right and (known or (self.registry.anonymous and not authorization)):
            self.reply(200, json.dumps({"access_token": TOKEN, "expires_in": self.registry.lifetime}).encode())
        else:
            self.reply(401)

    def _content(self, path: str) -> None:
        last = path.rpartition("/")[2]
        if "/manifests/" in path and last in self.registry.manifests:
            content, kind = self.registry.manifests[last]
            self.reply(200, content, Content_Type=kind, Docker_Content_Digest=sha256(content))
        elif "/blobs/" in path and last in self.registry.blobs:
            self._blob(self.registry.blobs[last])
        else:
            error = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
            self.reply(404, json.dumps(error).encode())

    def _blob(self, content: bytes) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(wanted[1]) if wanted else 0
        if not wanted:
            self.reply(200, content)
        else:
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.reply(206, content[start:], Content_Range=span)


def basic(user: str, password: str) -> str:
    """The header of basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def status(code: int, **headers: str) -> Fault:
    """Answer with an error."""
    return lambda handler: handler.reply(code, b"", **headers)


def body(content: bytes, code: int = 200, **headers: str) -> Fault:
    """Answer with another content."""
    return lambda handler: handler.reply(code, content, **headers)


def redirect(url: str) -> Fault:
    """Answer with another place."""
    return lambda handler: handler.reply(307, b"", Location=url)


def cut(content: bytes, at: int) -> Fault:
    """Announce the whole content, send a part, and close."""

    def fault(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:at])
        handler.close_connection = True
        return True

    return fault


def stall(content: bytes = b"") -> Fault:
    """Announce a content, send a part at most, and nothing more until the registry ends."""

    def fault(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.wfile.write(content)
        handler.wfile.flush()
        handler.registry.released.wait()
        handler.close_connection = True
        return True

    return fault


def endless(handler: Handler) -> bool:
    """Send without an end, and without telling a length."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    while not handler.registry.released.is_set():
        handler.wfile.write(bytes(1 << 20))
    return True


def certificates(directory: Path, name: str = "registry") -> tuple[Path, Path]:
    """Make an authority, and a server's certificate for 127.0.0.1 and a name; return the authority, and the server with
    its key.
    """
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    tests = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    root = _signed(tests, authority, tests, authority)
    other = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    leaf = _signed(other, server, tests, authority, name)
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "ca.pem").write_bytes(root)
    (directory / "server.pem").write_bytes(key + leaf)
    return directory / "ca.pem", directory / "server.pem"


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    host: str = "",
) -> bytes:
    """Return a certificate, an authority's without a host."""
    now = dt.datetime.now(dt.UTC)
    is_authority = not host
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(host or "authority")]
    address = x509.SubjectAlternativeName(names)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    signed = builder if is_authority else builder.add_extension(address, critical=False)
    return signed.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
