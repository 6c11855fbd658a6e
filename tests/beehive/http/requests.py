"""Requests out of bytes, as the server reads them."""

from beehive.http.request import MAX_HEAD, Request, read_request
from beehive.http.server import ServerExchange


def parse(data: bytes) -> Request:
    """Parse these bytes as one whole request. Raises RequestError."""
    reads = iter((data, b""))
    return read_request(ServerExchange(MAX_HEAD), lambda: next(reads))
