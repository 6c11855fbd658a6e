"""A node's answer to a request that upgrades the connection.

Only after `101 Switching Protocols` do bytes of the node reach the client as they came. Any other answer would leave a
client, or a proxy before it, with a connection that it takes for the API server's and uses again: the node would read
the next request with its credentials, and answer it (CVE-2018-1002105).
"""

import select
from http import HTTPStatus
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream.stream import TunnelStream

ANSWER_SECONDS: Final = 30.0
"""Seconds in which a node must answer: its container runtime makes the streaming server ready meanwhile."""
HEAD_BYTES: Final = 16 * 1024
REFUSAL_BYTES: Final = 4096
"""Bytes of a refusal's text that are passed on."""
_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of all responses together: any number of them may have a status below 200."""
_PASSED: Final = frozenset(
    {
        "sec-websocket-accept",
        "sec-websocket-extensions",
        "sec-websocket-protocol",
        "upgrade",
        "x-stream-protocol-version",
    }
)
"""Headers that the client's end of the new protocol reads."""


class Upgraded(NamedTuple):
    """An upgrade that the node has granted."""

    head: bytes
    """The response for the client."""
    rest: bytes
    """The first bytes of the new protocol."""


def read_upgrade(node: str, stream: TunnelStream, protocol: str, clock: Clock) -> Upgraded:
    """Return the upgrade that a node has granted; blocks.

    Args:
        node: its name, for errors.
        stream: on which the request was sent.
        protocol: the client's header `Upgrade`.
        clock: for the deadline.

    Raises:
        ApiStatusError: the status and the beginning of the text with which the node refuses, 400 to 599; 502 for
            another answer, 504 for none.
    """
    exchange = ClientExchange(HEAD_BYTES)
    deadline = clock.monotonic() + ANSWER_SECONDS

    received = 0

    def receive() -> bytes:
        nonlocal received
        if received > _ANSWER_BYTES:
            raise HttpError(HTTPStatus.BAD_GATEWAY, "it is too long")
        while (left := deadline - clock.monotonic()) > 0:
            data = stream.take(clock.monotonic())
            if data or stream.is_over:
                received += len(data)
                return data
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            poll.poll(left * 1000)
        raise ApiStatusError(HTTPStatus.GATEWAY_TIMEOUT, no_answer(node))

    try:
        exchange.request("GET", "/", [("Host", node), ("Connection", "Upgrade"), ("Upgrade", protocol)])
        head = exchange.read_head(receive)
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return Upgraded(_switched(head), exchange.rest)
        body = exchange.read_body(receive, REFUSAL_BYTES)[:REFUSAL_BYTES]
    except HttpError as error:
        why = stream.failure or f"its answer cannot be read: {error.reason}"
        raise ApiStatusError(HTTPStatus.BAD_GATEWAY, f"node {node}: {why}") from error
    if not HTTPStatus.BAD_REQUEST <= head.status < 600:
        why = f"node {node} has not switched to the stream's protocol: status {head.status}"
        raise ApiStatusError(HTTPStatus.BAD_GATEWAY, why)
    text = body.decode(errors="replace").strip()
    raise ApiStatusError(head.status, text or f"node {node} has refused with status {head.status}")


def no_answer(node: str) -> str:
    """Return the words for a node that does not answer."""
    hint = "does its server listen (edged's readOnlyPort, or 10350 of KubeEdge's edgecore)?"
    return f"node {node}: no answer within {ANSWER_SECONDS:g} s; {hint}"


def _switched(head: ResponseHead) -> bytes:
    """Return the head of the response with the headers that a client needs, and no others."""
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade"]
    lines += [f"{name.title()}: {value}" for name, value in head.fields if name in _PASSED]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
