"""The target of the stream tunnel: frames of a cloud that wants to reach more of a node than it may."""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Final

from modules.edge.edgestream.routes import check, request_head
from modules.streams import connect
from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import CONNECTS, Frame, FrameError, FrameType, decode
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


TARGETS: Final = (Target("tunnel", _seeds, _check),)
