"""The requests that the cloud may make to this node, and their form for the node's own server. Pure.

KubeEdge's edge makes any request to any host that the cloud names. Here each kind of stream has its own paths, and all
of them go to the node's own server: through the tunnel, the cloud reaches no other address and no other path.
"""

import re
from typing import Final

from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import FrameType

_NAME: Final = r"/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]{1,253}"
_POD: Final = rf"(?:{_NAME}){{2,3}}"
"""Namespace, name and perhaps uid."""

_UPGRADED: Final = re.compile(rf"/(?:(?:exec|attach){_POD}{_NAME}|portForward{_POD})")
_PATHS: Final = {
    FrameType.LOGS: re.compile(rf"/containerLogs(?:{_NAME}){{3}}"),
    FrameType.EXEC: _UPGRADED,
    FrameType.ATTACH: _UPGRADED,
    FrameType.METRICS: re.compile(
        rf"/(?:running)?pods|/metrics(?:/cadvisor|/resource|/probes)?|/stats/summary|/edgecore/chains(?:{_NAME}){{2}}"
    ),
}
_HOST: Final = "edgecore"


def has_upgrade(kind: FrameType) -> bool:
    """Return whether the streams of this type switch protocols, so that head and body pass as they are."""
    return kind in (FrameType.EXEC, FrameType.ATTACH)


def check(kind: FrameType, request: StreamRequest) -> None:
    """Check that the node may be asked this.

    Raises:
        ConnectError: it may not.
    """
    path = request.target.partition("?")[0]
    if not _PATHS[kind].fullmatch(path):
        raise ConnectError(f"the path {path[:200]} is not served through the tunnel")
    if has_upgrade(kind):
        if not any(name == "Upgrade" for name, _ in request.headers):
            raise ConnectError("a stream begins with an upgrade to SPDY/3.1 or websocket")
    elif request.method != "GET":
        raise ConnectError("logs and metrics are asked for with GET")


def request_head(request: StreamRequest) -> bytes:
    """Return the head of a request with an upgrade."""
    lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: {_HOST}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def plain_headers() -> list[tuple[str, str]]:
    """Return the headers of a request without an upgrade: nothing of the caller's, so that no body is compressed."""
    return [("Host", _HOST), ("Connection", "close")]


def refusal(kind: FrameType, status: str, why: str) -> bytes:
    """Return the refusal of a stream that cannot begin: a response where the caller expects an upgrade, else the text,
    as KubeEdge's edge passes on the text of an error.
    """
    body = f"{why}\n".encode()
    if not has_upgrade(kind):
        return body
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"Connection: close\r\n\r\n" + body
