"""The targets of the stream tunnel: frames of a cloud that wants to reach more of a node than it may, and frames of a
node for a browser, which has no bounds.
"""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from modules.edge.edgestream.routes import check, request_head
from modules.page.frames import MOST_BYTES, BrowserFrameError, FrameBounds
from modules.streams import connect
from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import CONNECTS, Frame, FrameError, FrameType, decode
from tests.fuzz.mutate import pieces
from tests.fuzz.target import Target, must

_HEAD: Final = re.compile(
    rb"(?:GET|POST) /(?:containerLogs|exec|attach|portForward|metrics|stats)(?:/[\w.-]+)*(?:\?[!-~]*)? HTTP/1\.1\r\n"
    rb"(?:[!#$%&'*+.^_`|~\w-]+: [ -~]*\r\n)+\r\n"
)
_SENT: Final = {"accept", "connection", "upgrade", "user-agent", "x-stream-protocol-version"}


def _seeds() -> Sequence[bytes]:
    url = {"Scheme": "http", "Host": "127.0.0.1:10350", "Path": "/containerLogs/default/p/app", "RawPath": ""}
    header = {"Upgrade": ["SPDY/3.1"], "Authorization": ["Bearer x"], "Sec-WebSocket-Key": ["k"]}
    logs = json.dumps({"MessID": 1, "url": url | {"RawQuery": "follow=true&tailLines=5"}, "header": {}})
    asked = json.dumps({"MessID": 2, "url": url | {"Path": "/exec/default/p/app"}, "header": header, "method": "POST"})
    return [
        Frame(1, FrameType.LOGS, logs.encode()).encode(),
        Frame(2, FrameType.EXEC, asked.encode()).encode(),
        Frame(3, FrameType.ATTACH, asked.replace("exec", "attach").encode()).encode(),
        Frame(300, FrameType.METRICS, logs.replace("containerLogs/default/p/app", "stats/summary").encode()).encode(),
        Frame(2**63, FrameType.DATA, b"\x80\x03\xff").encode(),
    ]


def _check(data: bytes, _random: Random) -> None:
    try:
        frame = decode(data)
    except FrameError:
        return
    must(decode(frame.encode()) == frame, "a frame is written as it was read")
    if frame.kind not in CONNECTS:
        return
    try:
        request = connect.decode(frame.data)
        check(FrameType(frame.kind), request)
    except ConnectError:
        return
    _check_request(request)


def _check_request(request: StreamRequest) -> None:
    if request.headers:
        must(_HEAD.fullmatch(request_head(request)) is not None, "a request is one request, of a path on the list")
    must(not {"..", "."} & set(request.target.partition("?")[0].split("/")), "no path leads upwards")
    names = {name.lower() for name, _ in request.headers}
    must(all(name in _SENT or name.startswith("sec-websocket-") for name in names), "no credentials pass")
    again = connect.decode(connect.encode(request, with_method=True))
    must(again == request, "a request is written as it was read")


def _browser_frames() -> Sequence[bytes]:
    """Frames of a node for a browser: output, a message in parts with a ping between them, a long one, the result."""
    parts = [
        WebSocketFrame(Opcode.BINARY, b"\x01out", fin=False),
        WebSocketFrame(Opcode.PING, b"ping"),
        WebSocketFrame(Opcode.CONT, b"put"),
    ]
    long = [WebSocketFrame(Opcode.BINARY, b"\x01" + bytes(size)) for size in (0, 125, 300, 70_000)]
    result = [WebSocketFrame(Opcode.BINARY, b'\x03{"status":"Success"}')]
    close = [WebSocketFrame(Opcode.CLOSE, b"\x03\xe8")]
    found = (parts, long, [*parts, *result], [*result, *close])
    return [b"".join(each.serialize(mask=False) for each in frames) for frames in found]


def _check_browser_frames(data: bytes, random: Random) -> None:
    outcomes = []
    for each in ([data], [*pieces(random, data)]):
        bounds, is_refused = FrameBounds(), False
        try:
            for piece in each:
                bounds.check(piece)
        except BrowserFrameError:
            is_refused = True
        outcomes.append((is_refused, bounds.is_between))
    must(outcomes[0] == outcomes[1], "the fragmentation of the stream makes no difference")
    peer = ClientProtocol(parse_uri("ws://node/"), state=OPEN, max_size=MOST_BYTES)
    peer.receive_data(data)
    if isinstance(peer.parser_exc, PayloadTooBig):
        must(outcomes[0][0], "no message is too long")
    sizes = [random.choice((0, 1, 125, 126, 127, 65_535, 65_536)) for _ in range(3)]
    said = [WebSocketFrame(Opcode.BINARY, bytes(size)).serialize(mask=False) for size in sizes]
    good = FrameBounds()
    for piece in pieces(random, b"".join(said)):
        good.check(piece)
    must(good.is_between, "whole messages pass")


TARGETS: Final = (
    Target("tunnel", _seeds, _check),
    Target("frames for a browser", _browser_frames, _check_browser_frames, 0.2),
)
