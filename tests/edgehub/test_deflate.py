"""Compression: what is agreed on, that it comes out as it went in, and that nothing takes more memory than it may."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgehub.deflate import OFFER, Agreement, Deflater, agreement, inflate
from edgehub.errors import ProtocolError, UpgradeError
from edgehub.framing import FrameReader, Opcode, Received, Skipped
from tests.edgehub.clouds import LibraryCloud, ScriptedCloud
from tests.edgehub.links import dial

LIMIT = 1000


def compressed(payload: bytes) -> bytes:
    """As a server compresses a message that stands alone."""
    made = zlib.compressobj(wbits=-15)
    return (made.compress(payload) + made.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\0\0\xff\xff")


def server_frame(payload: bytes, first: int = 0xC1) -> bytes:
    """One frame of a server: final, compressed, text."""
    size = len(payload)
    head = bytes((first, size)) if size < 126 else bytes((first, 126)) + size.to_bytes(2, "big")
    return head + payload


def reader(*, inflates: bool = True) -> FrameReader:
    """A reader of messages of at most a thousand bytes."""
    made = FrameReader(LIMIT)
    made.inflates = inflates
    return made


@pytest.mark.parametrize(
    ("answer", "forgets"),
    [
        ("permessage-deflate; server_no_context_takeover", False),
        ("permessage-deflate;server_no_context_takeover;client_no_context_takeover", True),
        ("permessage-deflate; server_max_window_bits=12; server_no_context_takeover", False),
    ],
)
def test_accepted_extension_parameters(answer: str, *, forgets: bool) -> None:
    """The offer, with what the peer says of itself."""
    assert agreement(answer) == Agreement(forgets)


@pytest.mark.parametrize(
    "answer",
    [
        "permessage-deflate",
        "permessage-bzip2; server_no_context_takeover",
        "permessage-deflate; server_no_context_takeover; client_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; server_no_context_takeover, x-other",
    ],
)
def test_an_extension_that_was_not_offered_is_refused(answer: str) -> None:
    """By name, before anything is read."""
    with pytest.raises(UpgradeError, match="was not offered"):
        agreement(answer)


@given(st.lists(st.binary(max_size=2000), max_size=8), st.booleans())
def test_a_compressed_message_inflates_to_the_original(messages: list[bytes], forgets: bool) -> None:
    """With one window for all messages, or one for each."""
    deflater = Deflater(Agreement(forgets))
    inflater = zlib.decompressobj(-15)
    for one in messages:
        if forgets:
            inflater = zlib.decompressobj(-15)
        assert inflater.decompress(deflater.deflate(one) + b"\0\0\xff\xff") == one


@given(st.binary(max_size=3000))
def test_a_message_that_was_compressed_is_read(payload: bytes) -> None:
    """Within the limit whole, beyond it its beginning, and never more."""
    (event,) = reader().feed(server_frame(compressed(payload)))
    if len(payload) <= LIMIT:
        assert event == Received(Opcode.TEXT, payload)
    else:
        assert isinstance(event, Skipped)
        assert payload.startswith(event.head)


def test_a_bomb_takes_no_more_than_the_limit_and_the_next_message_is_read() -> None:
    """A megabyte of zeros in a kilobyte."""
    bomb = compressed(b"\0" * (1 << 20))
    assert len(bomb) < 1100
    made = FrameReader(1100)
    made.inflates = True
    skipped, after = made.feed(server_frame(bomb) + server_frame(compressed(b"{}")))
    assert isinstance(skipped, Skipped)
    assert skipped.size == 1101
    assert after == Received(Opcode.TEXT, b"{}")
    assert len(inflate(bomb, 10) or b"") == 10


@pytest.mark.parametrize(
    "data",
    [
        server_frame(compressed(b"{}"), first=0xA1),
        server_frame(b"", first=0xC9),
        server_frame(b"a", first=0x01) + server_frame(b"b", first=0xC0),
    ],
    ids=["another bit", "a control frame", "a continuation"],
)
def test_reserved_bits_elsewhere_end_the_link(data: bytes) -> None:
    """Only the first frame of a message may be marked."""
    with pytest.raises(ProtocolError):
        list(reader().feed(data))


def test_a_continuation_that_is_marked_is_refused_before_it_is_inflated() -> None:
    frames = server_frame(b"", first=0x01) + server_frame(compressed(b"{}"), first=0xC0)
    with pytest.raises(ProtocolError, match="not agreed on"):
        list(reader().feed(frames))


def test_a_message_in_fragments_after_a_compressed_one_is_read_as_it_is() -> None:
    plain = server_frame(b"a", first=0x01) + server_frame(b"b", first=0x80)
    _, event = reader().feed(server_frame(compressed(b"{}")) + plain)
    assert event == Received(Opcode.TEXT, b"ab")


def test_a_compressed_message_that_was_not_agreed_on_ends_the_link() -> None:
    """As before."""
    with pytest.raises(ProtocolError, match="not agreed on"):
        list(reader(inflates=False).feed(server_frame(compressed(b"{}"))))


def test_both_ways_with_a_real_server_and_a_message_over_the_limit_between() -> None:
    """The `websockets` package agrees; what a node repeats is small."""
    said = json.dumps({"spec": {"holderIdentity": "edge-1", "padding": "abcdefghij" * 20}}).encode()
    with LibraryCloud() as cloud, dial(cloud.port, compression=True, max_frame_bytes=4096) as running:
        connection = cloud.accept()
        running.wait_open()
        assert connection.protocol.extensions
        for number in range(3):
            running.link.send(said + str(number).encode())
            assert cloud.frame() == (said + str(number).encode()).decode()
        connection.send("x" * 5000)
        connection.send(said.decode())
        assert running.frame() == said
        assert running.skips.get_nowait()[1] == 4097


def test_a_cloud_that_does_not_agree_is_spoken_to_as_ever() -> None:
    """KubeEdge's: the answer names no extension."""
    with ScriptedCloud() as cloud, dial(cloud.port, compression=True) as running:
        connection = cloud.connection()
        assert f"Sec-WebSocket-Extensions: {OFFER}".encode() in connection.accept()
        running.wait_open()
        running.link.send(b'{"plain":1}')
        assert connection.text() == b'{"plain":1}'
        connection.close()


def renewal(number: int) -> bytes:
    """The lease, renewed for the n-th time."""
    header = {"msg_id": f"9bf0fdde-785e-427c-8c4d-fb4e667e{number:04x}", "timestamp": 1800001810000 + 12_500 * number}
    route = {"source": "edged", "group": "meta", "operation": "update", "resource": "kube-node-lease/lease/node-0"}
    metadata = {"name": "node-0", "namespace": "kube-node-lease", "resourceVersion": str(1800000197 + number)}
    spec = {"holderIdentity": "node-0", "renewTime": f"2027-01-15T08:30:{number:02}.000000Z"}
    content = {"metadata": metadata, "spec": spec}
    return json.dumps({"header": header, "route": route, "content": content}).encode()


def test_a_day_of_leases_is_small() -> None:
    """What differs between two renewals is an id, a version and two times."""
    deflater = Deflater(Agreement(forgets=False))
    shares = [len(deflater.deflate(one)) / len(one) for one in map(renewal, range(20))]
    assert max(shares[1:]) < 0.25
