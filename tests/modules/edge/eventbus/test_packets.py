"""The packets of messages, as MQTT 3.1.1 writes them."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion

from modules.apimachinery.device_topics import LONGEST_TOPIC
from modules.edge.eventbus.client import BufferedClient
from modules.edge.eventbus.packets import (
    MalformedPacketError,
    Received,
    body_of,
    is_too_large,
    puback,
    publish,
    read_publish,
    shortened,
)
from modules.edge.eventbus.routing import MAX_PAYLOAD


def _read(data: bytes, at: int = 0) -> Received | None:
    body = body_of(bytearray(data), at)
    return None if body is None or body[1] > len(data) else read_publish(bytearray(data), data[at], *body)


TOPICS = st.text(min_size=1, max_size=30)


@given(TOPICS, st.binary(max_size=300), st.integers(1, 0xFFFF), st.integers(0, 1), st.booleans(), st.binary(max_size=9))
def test_written_packets_can_be_read(
    topic: str, payload: bytes, mid: int, qos: int, retain: bool, before: bytes
) -> None:
    """Wherever it is, whatever follows, and only when it is whole."""
    packet = publish(topic, payload, mid, qos=qos, retain=retain)
    wanted = Received(topic, payload, qos, mid if qos else 0, retain)
    assert _read(before + packet + b"\x30\x00", len(before)) == wanted
    for end in range(len(before) + 1, len(before) + len(packet)):
        assert _read((before + packet)[:end], len(before)) is None


def test_the_bytes_follow_the_standard() -> None:
    """§3.3: the example of a PUBLISH to a/b with the number 10; §2.2.3: 321 has two bytes; §3.4."""
    assert publish("a/b", b"", 10, qos=1, retain=False) == bytes.fromhex("32 07 0003 612f62 000a")
    assert publish("a/b", b"x", 0, qos=0, retain=True) == bytes.fromhex("31 06 0003 612f62 78")
    assert publish("t", b"." * 318, 0, qos=0, retain=False)[:3] == bytes.fromhex("30 c102")
    assert puback(0x1234) == bytes.fromhex("40 02 1234")


@pytest.mark.parametrize(
    "packet",
    [
        "30 ffffffff",
        "30 ffffffff7f",
        "30 00",
        "30 01 00",
        "30 03 0002 61",
        "32 03 0001 61",
        "32 04 0001 61 00",
        "90 ffffff7f",
        "20 808002",
    ],
)
def test_other_bytes_than_packets_are_refused(packet: str) -> None:
    """A length that has no end, a body shorter than its topic and its number, an answer that announces megabytes."""
    with pytest.raises(MalformedPacketError):
        _read(bytes.fromhex(packet))


def test_a_topic_that_is_no_text_is_empty() -> None:
    """So that it is refused and acknowledged, and does not end the connection."""
    assert _read(bytes.fromhex("32 06 0002 ff61 0001")) == Received("", b"", 1, 1, retained=False)


@given(TOPICS, st.integers(1, 0xFFFF), st.integers(0, 2), st.integers(0, 200))
def test_a_message_that_is_too_large_is_shortened_before_its_payload_has_come(
    topic: str, mid: int, qos: int, come: int
) -> None:
    """Topic and number stay, the payload is only counted; until they have come there is nothing to shorten."""
    small = publish(topic, b"", mid, qos=min(qos, 1), retain=False)
    first = small[0] ^ 6 if qos == 2 else small[0]
    packet = bytearray((first, 0xFF, 0xFF, 0xFF, 0x7F, *small[2:]))
    body = body_of(packet, 0)
    assert body == (5, 5 + 0xFFFFFFF)
    assert is_too_large(first, *body)
    short = shortened(packet[:come], 0, *body)
    assert (short is None) == (come < len(packet))
    if short is not None:
        assert short.left_out == 0xFFFFFFF - len(small) + 2
    if short is not None and qos < 2:
        assert _read(short.packet) == Received(topic, b"", qos, mid if qos else 0, retained=False)


@pytest.mark.parametrize(("topic", "payload"), [(LONGEST_TOPIC, MAX_PAYLOAD), (1, 0)])
def test_a_message_that_may_be_taken_is_kept(topic: int, payload: int) -> None:
    """The largest one is."""
    packet = bytearray(publish("t" * topic, bytes(payload), 1, qos=1, retain=False))
    body = body_of(packet, 0)
    assert body is not None
    assert not is_too_large(packet[0], *body)
    assert is_too_large(packet[0], body[0], body[1] + 1) == (payload == MAX_PAYLOAD)


@pytest.mark.parametrize(("qos", "own", "is_pahos"), [(0, b"", False), (1, puback(7), False), (2, b"", True)])
def test_which_messages_are_acknowledged_by_which_packet(qos: int, own: bytes, *, is_pahos: bool) -> None:
    """A broker ends the connection of a client that acknowledges a message of QoS 0; of QoS 2 paho has the steps."""
    client = BufferedClient(CallbackAPIVersion.VERSION2, manual_ack=True)
    client.acknowledge(Received("t", b"", qos, 7, retained=False))
    assert (bytes(client._outgoing), client.want_write()) == (own, is_pahos)


@pytest.mark.parametrize(("qos", "number"), [(0, 0), (1, 1), (2, 9)])
def test_the_steps_of_a_message_of_qos_2_are_pahos(monkeypatch: pytest.MonkeyPatch, qos: int, number: int) -> None:
    """It keeps what the broker has not released yet."""
    client = BufferedClient(CallbackAPIVersion.VERSION2, manual_ack=True)
    monkeypatch.setattr(client, "publish", lambda *_: SimpleNamespace(mid=9))
    assert client.send("t", b"x", qos=qos, retain=False) == number
    assert bool(client._outgoing) == (qos < 2)
