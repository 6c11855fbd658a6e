"""A cloud's CA, and its server of certificates on a real socket, as KubeEdge's answers (docs/protocol.md,
"Certificates").
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import ssl
import threading
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from beehive import RealClock
from edgehub.certificates.settings import CertificateSettings

NODE = "edge-1"
DAY = 86400.0
_clock = RealClock()


def name(common: str, organisation: str = "") -> x509.Name:
    """A subject."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)] if organisation else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key's file."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


class Authority:
    """A CA."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.sign(self.key.public_key(), name("KubeEdge"), authority=True, life=100 * 365 * DAY)
        self.der = self.certificate.public_bytes(Encoding.DER)

    def sign(
        self,
        key: Any,
        subject: x509.Name,
        *,
        authority: bool = False,
        life: float = DAY,
        since: float = -60.0,
        server: tuple[str, ...] = (),
        issuer: str = "KubeEdge",
    ) -> x509.Certificate:
        """A certificate that began `since` seconds from now and lasts `life`; with names for a server."""
        begin = datetime.fromtimestamp(_clock.now() + since, UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name(issuer))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(seconds=life))
        )
        if authority:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        if not authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if server:
            addresses = [_general_name(each) for each in server]
            builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def server_context(
        self, directory: Path, names: tuple[str, ...] = ("127.0.0.1",), life: float = DAY, since: float = -60.0
    ) -> ssl.SSLContext:
        """Of a server that asks for a client's certificate without requiring it."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.sign(key.public_key(), name("KubeEdge", "KubeEdge"), server=names, life=life, since=since)
        file = directory / "server.pem"
        file.write_bytes(certificate.public_bytes(Encoding.PEM) + key_pem(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.load_verify_locations(cadata=self.der)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def token(self, expires: float | None = None, **more: Any) -> str:
        """A token as KubeEdge's; its signature is nobody's, for the edge does not check it."""
        claims = {"exp": int(_clock.now() + DAY if expires is None else expires), **more}
        parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": "HS256", "typ": "JWT"}, claims)]
        return ".".join([hashlib.sha256(self.der).hexdigest(), *parts, _encoded(b"signature")])


class CertificateServer:
    """`/ca.crt` and `/edge.crt`, with whatever a test wants to be wrong.

    Args:
        authority: signs.
        context: of TLS.
        directory: of the files of the node that asks.
    """

    def __init__(self, authority: Authority, context: ssl.SSLContext, directory: Path = Path()) -> None:
        self.authority, self.directory = authority, directory
        self.requests: list[tuple[str, dict[str, str], bytes, dict[str, Any] | None]] = []
        """Path, headers, body and client certificate of each request."""
        self.life = DAY
        self.since = -60.0
        self.subject = name(f"system:node:{NODE}", "system:nodes")
        self.signer = authority
        self.refusal: tuple[int, str] | None = None
        self.answers: dict[str, bytes] = {}
        """Bodies that are answered in place of the right ones."""
        self.clock_off = 0.0
        self.silent = threading.Event()
        """Set: requests are read and never answered."""
        self.cut_off = threading.Event()
        """Set: the connections of requests for certificates are closed without an answer."""
        self._released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None: ...

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(_clock.now() + outer.clock_off, usegmt=True)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="certificates")
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> CertificateServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def settings(self, directory: Path | None = None, **changes: Any) -> CertificateSettings:
        """Of a node that keeps its files in a directory, the server's own unless one is named."""
        directory = directory or self.directory
        fields = {
            "node": NODE, "server": self.url, "token": self.authority.token(),
            "authority": str(directory / "ca" / "rootCA.crt"),
            "certificate": str(directory / "certs" / "server.crt"),
            "key": str(directory / "certs" / "server.key"),
        }  # fmt: skip
        return CertificateSettings(**{**fields, **changes})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        peer: dict[str, Any] | None = handler.connection.getpeercert()
        self.requests.append((handler.path, dict(handler.headers), body, peer))
        if self.silent.is_set():
            self._released.wait()
            return
        if self.cut_off.is_set() and handler.path == "/edge.crt":
            return
        status, answer = self._answer(handler.path, body)
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path in self.answers:
            return 200, self.answers[path]
        if path == "/ca.crt":
            return 200, self.authority.der
        if self.refusal is not None:
            return self.refusal[0], self.refusal[1].encode()
        key = x509.load_der_x509_csr(body).public_key()
        issued = self.signer.sign(key, self.subject, life=self.life, since=self.since)
        return 200, issued.public_bytes(Encoding.DER)


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
