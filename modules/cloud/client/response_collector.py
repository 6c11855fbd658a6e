"""A whole response, from its pieces."""

from collections.abc import Callable

from modules.cloud.client.transport import ApiResponse, ResponseHead


class ResponseCollector:
    """A collector of a response that is no stream (`ResponseListener`); the transport bounds its length.

    Args:
        ended: takes the response, or the error, on the transport's thread.
    """

    def __init__(self, ended: Callable[[ApiResponse | Exception], None]) -> None:
        self._ended = ended
        self._head = ResponseHead(0)
        self._body: list[bytes] = []

    def on_head(self, head: ResponseHead) -> None:
        """Keep the beginning."""
        self._head = head
        self._body.clear()

    def on_data(self, data: bytes) -> None:
        """Keep a piece."""
        self._body.append(data)

    def on_end(self) -> None:
        """Hand the response over."""
        self._ended(ApiResponse(self._head, b"".join(self._body)))

    def on_error(self, error: Exception) -> None:
        """Hand the error over."""
        self._ended(error)
