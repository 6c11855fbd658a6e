"""Requests out of bytes, as the server reads them."""

from beehive.http.request import MAX_HEAD, Request, read_request
from beehive.http.server import ServerExchange


def parse(data: bytes) -> Request:
    """The request that these bytes are; raises RequestError when they are none, or not whole."""
    reads = iter((data, b""))
    return read_request(ServerExchange(MAX_HEAD), lambda: next(reads))
