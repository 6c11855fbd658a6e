"""D-Bus messages as bytes."""

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.shutdown.errors import BusError
from edged.shutdown.wire import FIXED, LARGEST, Field, Kind, Message, decode, encode, length

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "y": st.integers(0, 255),
    "b": st.booleans(),
    "u": st.integers(0, 2**32 - 1),
    "t": st.integers(0, 2**64 - 1),
    "h": st.integers(0, 3),
    "s": TEXT,
    "o": st.just("/org/freedesktop/login1"),
}


@st.composite
def _messages(draw: st.DrawFn) -> Message:
    signature = draw(st.text(st.sampled_from("".join(VALUES)), max_size=6))
    fields: dict[int, Any] = {Field.PATH: "/a", Field.MEMBER: draw(TEXT), Field.REPLY_SERIAL: draw(VALUES["u"])}
    if signature:
        fields[Field.SIGNATURE] = signature
    body = tuple(draw(VALUES[kind]) for kind in signature)
    return Message(draw(st.sampled_from(Kind)), draw(st.integers(1, 2**32 - 1)), fields, body)


@given(_messages())
def test_what_is_written_is_read(message: Message) -> None:
    raw = encode(message)
    assert length(raw[:FIXED]) == len(raw)
    assert decode(raw) == message


def test_a_call_is_written_as_the_specification_has_it() -> None:
    """Little-endian, a call, no flags, version 1; no body; serial 1; then the fields, each at a multiple of eight."""
    raw = encode(Message(Kind.CALL, 1, {Field.PATH: "/", Field.MEMBER: "Hello"}))
    assert raw[:FIXED] == b"l\x01\x00\x01" + struct.pack("<III", 0, 1, 30)
    assert raw[FIXED:] == (
        b"\x01\x01o\0" + b"\x01\0\0\0/\0" + bytes(6) + b"\x03\x01s\0" + b"\x05\0\0\0Hello\0" + bytes(2)
    )


def test_a_variant_is_read_and_so_is_the_other_order_of_bytes() -> None:
    answer = Message(Kind.RETURN, 2, {Field.REPLY_SERIAL: 1, Field.SIGNATURE: "v"}, (("t", 5_000_000),))
    assert decode(encode(answer)).body == (5_000_000,)
    big = b"B\x04\x00\x01" + struct.pack(">III", 4, 9, 7) + b"\x08\x01g\0\x01b\0" + b"\0" + struct.pack(">I", 1)
    assert (decode(big).kind, decode(big).body) == (Kind.SIGNAL, (True,))


def test_a_body_of_types_that_are_not_known_is_none() -> None:
    raw = bytearray(encode(Message(Kind.SIGNAL, 1, {Field.SIGNATURE: "ss"}, ("a", "b"))))
    at = raw.index(b"ss")
    raw[at : at + 2] = b"as"
    assert decode(bytes(raw)).body == ()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r", b"l\x01\x00\x02" + bytes(12)])
def test_what_is_no_message_is_refused(head: bytes) -> None:
    with pytest.raises(BusError, match="no D-Bus"):
        length(head)


def test_a_message_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(BusError, match="at most"):
        length(b"l\x01\x00\x01" + struct.pack("<III", LARGEST, 1, 0))


@given(st.binary(max_size=200))
def test_nothing_that_comes_does_more_than_be_refused(noise: bytes) -> None:
    raw = b"l\x04\x00\x01" + struct.pack("<III", 0, 1, max(0, len(noise) - 8)) + noise
    with contextlib.suppress(BusError):
        decode(raw)
