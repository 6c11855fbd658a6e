"""HTTP servers of applications, for tests: a well-behaved one, and others."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.support.serving import ServedInThread

Reply = tuple[int, dict[str, str], bytes]


class Heard(NamedTuple):
    """A request."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class HttpApplication(ServedInThread):
    """An HTTP server on a free port of the loopback interface, between `with` and its end.

    Args:
        answer: returns status, headers and body; default 200 with method, target and body.
        context: its TLS; None serves plain HTTP.
    """

    def __init__(self, answer: Callable[[Heard], Reply] | None = None, context: ssl.SSLContext | None = None) -> None:
        self.heard: list[Heard] = []
        self._answer = answer or _echo

        application = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    super().handle_one_request()

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                heard = Heard(self.command, self.path, headers, self.rfile.read(length))
                application.heard.append(heard)
                status, given, body = application._answer(heard)
                self.send_response(status)
                for name, value in {**given, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = server.server_address[1]
        super().__init__(server)


def _echo(heard: Heard) -> Reply:
    return 200, {"Content-Type": "text/plain"}, f"{heard.method} {heard.target} {heard.body.decode()}".encode()


@contextlib.contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yield the port of a server whose connections are served byte by byte, each on a thread of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    open_ones: list[socket.socket] = []

    def one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            serve(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                open_ones.append(connection)
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for each in open_ones:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
