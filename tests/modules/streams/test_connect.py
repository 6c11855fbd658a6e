"""The JSON that opens a stream, as KubeEdge's cloudstream writes it, and what of it may pass."""

import json
from typing import Any

import pytest

from modules.streams import connect
from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import CONNECTS, FrameType, decode
from tests.interop.traces import KUBEEDGE, lines_of

RECORDED = [
    ("s1-logs", "GET", "/containerLogs/cap/tok/main"),
    ("s3-exec-v5", "POST", "/exec/cap/tok/main"),
    ("s5-exec-tty", "GET", "/exec/cap/tok/main"),
    ("s7-attach", "GET", "/attach/cap/tok/main"),
]


def text(path: str = "/containerLogs/a/b/c", query: str = "", **other: Any) -> bytes:
    """Return a connect frame's JSON."""
    return json.dumps({"MessID": 1, "url": {"Path": path, "RawQuery": query}, **other}).encode()


@pytest.mark.parametrize(("name", "method", "path"), RECORDED)
def test_recorded_requests(name: str, method: str, path: str) -> None:
    """Each recorded request is read, and written again with the same fields except the headers that must not pass."""
    lines = lines_of(KUBEEDGE / f"{name}.jsonl")
    frames = [decode(bytes.fromhex(line["hex"])) for line in lines if line.get("opcode") == 1 and "hex" in line]
    asked = [frame for frame in frames if frame.kind in CONNECTS]
    assert asked
    for frame in asked:
        request = connect.decode(frame.data)
        assert (request.connection, request.method) == (frame.connection, method)
        assert request.target.partition("?")[0].rpartition("/")[0] == path.rpartition("/")[0]
        again = json.loads(connect.encode(request, with_method=frame.kind in (FrameType.EXEC, FrameType.ATTACH)))
        sent = json.loads(frame.data)
        assert again | {"header": None} == sent | {"header": None}
        assert again["header"].items() <= sent["header"].items()


def test_what_may_pass() -> None:
    """Headers of the upgrade pass, also several of one name; the caller's credentials, Origin and encodings do not."""
    header = {
        "Authorization": ["Bearer x"], "Cookie": ["y"], "X-Remote-User": ["z"], "Origin": ["http://a"],
        "Accept-Encoding": ["gzip"], "Upgrade": ["SPDY/3.1"], "sec-websocket-key": ["k"], "Via": None,
        "X-Stream-Protocol-Version": ["v4.channel.k8s.io", "channel.k8s.io"],
    }  # fmt: skip
    assert connect.decode(text(header=header)).headers == (
        ("Upgrade", "SPDY/3.1"),
        ("Sec-Websocket-Key", "k"),
        ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ("X-Stream-Protocol-Version", "channel.k8s.io"),
    )


def test_scheme_and_host_mean_nothing() -> None:
    """Only path and query are taken from the URL, so that no request goes to another host."""
    url = {"Scheme": "https", "Host": "10.0.0.1:6443", "Path": "/pods", "RawQuery": "a=1"}
    assert connect.decode(json.dumps({"MessID": 3, "url": url}).encode()) == StreamRequest(3, "/pods?a=1")


@pytest.mark.parametrize(
    ("path", "raw", "target"),
    [
        ("/a b", "", "/a%20b"),
        ("/a/b", "/a%2Fb", "/a%2Fb"),
        ("/a", "/other", "/a"),
        ("/ü\r\nX: y", "", "/%C3%BC%0D%0AX:%20y"),
    ],
)
def test_encoded_path(path: str, raw: str, target: str) -> None:
    """A path is encoded as Go does it; the encoded form of the sender counts only where it means the same."""
    data = json.dumps({"MessID": 1, "url": {"Path": path, "RawPath": raw}}).encode()
    request = connect.decode(data)
    assert request.target == target
    assert connect.decode(connect.encode(request, with_method=False)) == request


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConnectError, match="not UTF-8"):
        connect.encode(StreamRequest(1, "/a%FF"), with_method=False)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"MessID":1}',
        b'{"MessID":-1,"url":{"Path":"/a"}}',
        b'{"MessID":1,"url":{"Path":"/\\ud800"}}',
        b'{"MessID":1,"url":{"Path":"/a"},"x":' + b"[" * 20_000,
        text("a"),
        text(query="a b"),
        text(query="a#b"),
        text(query="a\r\nX: y"),
        text("/" + "a" * 50_000),
        text(method="DELETE"),
        text(method="PUT"),
        b'{"MessID":1,"url":{"Path":"/\xff"}}',
        text(header={"User-Agent": ["a\r\nb"]}),
        text(header={"User-Agent": ["a" * 5000]}),
        text(header={"Sec-WebSocket-Protocol": ["a"] * 65}),
        text(header={"X": ["a" * 200_000]}),
        text(header={"Sec-WebSocket-A\r\nX: y": ["a"]}),
    ],
    ids=range(19),
)  # fmt: skip
def test_refused(data: bytes) -> None:
    """JSON that cannot be read, and a request that another one could hide in, are refused."""
    with pytest.raises(ConnectError):
        connect.decode(data)
