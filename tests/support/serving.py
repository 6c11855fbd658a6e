"""A server on a thread of its own."""

import threading
from socketserver import BaseServer
from typing import Self


class ServedInThread:
    """A server that serves between `with` and its end.

    Args:
        server: listens.
    """

    def __init__(self, server: BaseServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
