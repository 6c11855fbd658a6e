"""Requests out of bytes, as the server reads them."""

from beehive.http.request import MAX_HEAD, Request, read_body, read_request
from beehive.http.server import ServerExchange


def parse(data: bytes, max_body: int = 0) -> Request:
    """Parse these bytes as one whole request; without a bound of its body, the body is not read. Raises
    HttpStatusError.
    """
    exchange, parts = ServerExchange(MAX_HEAD), [data]

    def receive() -> bytes:
        return parts.pop() if parts else b""

    request = read_request(exchange, receive)
    return read_body(request, exchange, receive, max_body) if max_body else request
