"""Targets of the wire, both ends: frames of the websocket, its upgrade, messages, resources."""

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final

from beehive.codec import decode, encode
from beehive.errors import ContentError, FrameError, ResourceError
from beehive.resource import Resource, Side, trim_node, type_of
from edgehub import dispatch
from edgehub.deflate import inflate
from edgehub.errors import ProtocolError, UpgradeError
from edgehub.framing import FrameReader, Opcode, Received, Skipped, close_reason
from edgehub.upgrade import LONGEST_ANSWER, Target, Upgrade
from modules.cloud.cloudhub import routing
from tests.fuzz.mutate import pieces
from tests.fuzz.target import Target as Fuzzed
from tests.fuzz.target import must
from tests.interop.traces import frame, messages, recordings

_LIMIT: Final = 4096
_ACCEPT: Final = b"{ACCEPT}"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@cache
def recorded_frames() -> tuple[bytes, ...]:
    """Return messages of real clouds and edges, and made ones."""
    recorded = {frame(message) for path in recordings() for message in messages(path)}
    return tuple(sorted(recorded, key=len)[:: max(1, len(recorded) // 150)]) + _MADE_FRAMES


def _message(operation: str, resource: str, content: object, group: str = "resource") -> bytes:
    header = {
        "msg_id": "828cc59a",
        "parent_msg_id": "",
        "timestamp": 1795139690255,
        "resourceversion": "329",
        "sync": True,
    }
    route = {"source": "edgecontroller", "group": group, "operation": operation, "resource": resource}
    return json.dumps({"header": header, "route": route, "content": content}).encode()


_MADE_FRAMES: Final = (
    _message("insert", "node/edge/default/pod/web", {"metadata": {"name": "web", "namespace": "default"}, "spec": {}}),
    _message("update", "default/configmap/c", {"data": {"a": "b"}, "metadata": {"name": "c"}}),
    _message("response", "node/edge/kube-system/secret/s", "OK"),
    _message("keepalive", "node", "ping"),
    b'{"Header":{"MSG_ID":"x"},"route":null,"content":[1,2,{"a":null}]} tail',
    b"{}",
)


def _check_message(data: bytes, random: Random) -> None:
    try:
        message = decode(data)
    except FrameError:
        return
    with suppress(ContentError):
        message.content_as(random.choice((dict[str, Any], list[int], str, object)))
    try:
        again = decode(encode(message))
    except ContentError:
        return
    must((again.header, again.route) == (message.header, message.route), "what is written is read the same")
    dispatch.decide(message)
    dispatch.late_object(message)
    destination = routing.destination_of(message)
    must(isinstance(destination, routing.Destination), "every message of a node has a destination")


def _check_resource(data: bytes, _: Random) -> None:
    text = data.decode("utf-8", "surrogateescape")
    trim_node(text)
    for side in Side:
        type_of(text, side)
        try:
            parsed = Resource.parse(text, side)
        except ResourceError:
            continue
        must(str(parsed) == text, "a resource is printed as it came")


def _resources() -> Sequence[bytes]:
    return (
        b"default/pod/web", b"default/podlist", b"node/edge-1/default/pod/web", b"node/edge-1/membership/detail",
        b"node", b"node/edge-1", b"rule/r1", b"task/1/node/edge-1", b"operations.kubeedge.io/v1/job/j/node/e",
        b"null/node/edge-1", b"node/e/device/d/twin/update", b"$hw/events/device/x/twin/update", b"a/serviceaccount",
    )  # fmt: skip


def server_frame(opcode: int, payload: bytes, first: int = 0x80) -> bytes:
    """Return a frame as a server sends it."""
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    return bytes([first | opcode]) + length + payload


def _frames() -> Sequence[bytes]:
    deflater = zlib.compressobj(wbits=-15)
    packed = deflater.compress(b"z" * 3000) + deflater.flush(zlib.Z_SYNC_FLUSH)
    whole = [server_frame(Opcode.TEXT, text[:3000]) for text in recorded_frames()[::20]]
    return (
        *whole,
        server_frame(Opcode.TEXT, b"a" * 5000),
        server_frame(Opcode.PING, b"12345678") + server_frame(Opcode.TEXT, b"{}"),
        server_frame(Opcode.TEXT, b"{", 0) + server_frame(Opcode.PONG, b"") + server_frame(Opcode.CONTINUATION, b"}"),
        server_frame(Opcode.CLOSE, b"\x03\xe8bye"),
        server_frame(Opcode.TEXT, packed.removesuffix(b"\x00\x00\xff\xff"), 0xC0) + server_frame(Opcode.TEXT, b"{}"),
        b"\x81\x7f" + (2**40).to_bytes(8, "big") + b"{",
    )


def _events(reader: FrameReader, parts: Sequence[bytes]) -> tuple[list[Received | Skipped], str]:
    found: list[Received | Skipped] = []
    try:
        for part in parts:
            found += reader.feed(part)
    except ProtocolError as error:
        return found, str(error)
    return found, ""


def _check_frames(data: bytes, random: Random) -> None:
    """Check that cuts make no difference, that no message exceeds the limit, and that invalid frames are refused."""
    inflates = bool(data) and data[0] & 1 == 1
    whole, parted = FrameReader(_LIMIT), FrameReader(_LIMIT)
    whole.inflates = parted.inflates = inflates
    events, refusal = _events(whole, [data])
    must((events, refusal) == _events(parted, pieces(random, data)), "a stream means the same however it is cut")
    for event in events:
        size = len(event.payload if isinstance(event, Received) else event.head)
        must(size <= _LIMIT, "no message over the limit is kept")
        if isinstance(event, Received) and event.opcode is Opcode.CLOSE:
            close_reason(event.payload)
    if len(data) >= 2:
        first, second = data[0], data[1]
        long = first & 0x08 and (second & 0x7F > 125 or not first & 0x80)
        wrong = second & 0x80 or first & 0x30 or (first & 0x40 and not inflates) or first & 0x0F not in (1, 2, 8, 9, 10)
        complete = len(data) >= 2 + {126: 2, 127: 8}.get(second & 0x7F, 0)
        must(not (complete and (wrong or long)) or bool(refusal), "a frame that no server sends is refused")


def _check_inflate(data: bytes, random: Random) -> None:
    limit = random.choice((1, 2048, 65536))
    found = inflate(data, limit)
    must(found is None or len(found) <= limit, "no more is inflated than was asked for")


def _deflated() -> Sequence[bytes]:
    made = []
    for text in (b"{}", b"abc" * 500, b"\x00" * 200_000, bytes(range(256)) * 4):
        deflater = zlib.compressobj(wbits=-13)
        made.append(deflater.compress(text) + deflater.flush(zlib.Z_SYNC_FLUSH))
    return made


def _answers() -> Sequence[bytes]:
    good = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
    return (
        good + _ACCEPT + b"\r\n\r\n\x81\x02{}",
        good + _ACCEPT + b"\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nwrong",
        b"HTTP/1.0 302 Found\r\nLocation: http://other/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
    )


def _check_upgrade(data: bytes, random: Random) -> None:
    """Check that an upgrade is accepted only with the hash of this request's key."""
    offered = bool(random.getrandbits(1))
    upgrade = Upgrade(Target(secure=False, host="cloud", port=10000, path="/p/n/events"), {}, compression=offered)
    key = next(line for line in upgrade.request().split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key: "))[19:]
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())  # noqa: S324 - RFC 6455
    answer = data.replace(_ACCEPT, accept)
    rest: bytes | None = None
    try:
        for part in pieces(random, answer):
            rest = upgrade.feed(part)
            if rest is not None:
                break
    except UpgradeError:
        return
    if rest is None:
        must(len(answer) <= LONGEST_ANSWER or b"\r\n\r\n" in answer, "an answer without end is refused")
        return
    must(
        accept in answer and b" 101" in answer and b"websocket" in answer.lower(), "only an agreement is taken for one"
    )
    must(offered or upgrade.compression is None, "compression is not agreed on unasked")


TARGETS: Final = (
    Fuzzed("message", recorded_frames, _check_message),
    Fuzzed("resource", _resources, _check_resource),
    Fuzzed("frames", _frames, _check_frames),
    Fuzzed("inflate", _deflated, _check_inflate, 0.5),
    Fuzzed("upgrade", _answers, _check_upgrade),
)
