"""The texts of events, kept for the next client."""

from unittest.mock import Mock

from modules.cloud.apiserver.endpoints.event_texts import KEPT_SECONDS, EventTexts


def test_a_text_is_made_once_for_each_form() -> None:
    texts, obj = EventTexts(), {"kind": "Pod"}
    encode = Mock(side_effect=[b"one", b"two", b"three"])
    assert [texts.text(obj, form, encode, 0) for form in ("a", "b", "a", "b")] == [b"one", b"two", b"one", b"two"]
    assert texts.text({"kind": "Pod"}, "a", encode, 0) == b"three", "an equal object may be another one"


def test_the_oldest_goes_first() -> None:
    texts, objects = EventTexts(most=8), [{"number": number} for number in range(3)]
    encode = Mock(side_effect=lambda: b"1234")
    for number in (0, 1, 0, 2, 1):
        texts.text(objects[number], "", encode, 0)
    assert encode.call_count == 3
    texts.text(objects[0], "", encode, 0)
    assert encode.call_count == 4
    assert texts._bytes == 8


def test_none_is_kept_for_long() -> None:
    """A node's heartbeats alone are a million texts in half a year."""
    texts = EventTexts()
    for second in range(1000):
        texts.text({"second": second}, "", lambda: b"1234", second)
    assert len(texts._texts) == KEPT_SECONDS + 1
    assert texts._bytes == 4 * len(texts._texts)


def test_a_text_above_the_bound_is_not_kept() -> None:
    texts, obj = EventTexts(most=10), {"kind": "Pod"}
    assert texts.text(obj, "", lambda: bytes(11), 0) == bytes(11)
    assert (texts._bytes, len(texts._texts)) == (0, 0)


def test_two_clients_that_ask_at_the_same_time_share_one_text() -> None:
    texts, obj = EventTexts(), {"kind": "Pod"}
    other = b"made meanwhile"

    def encode() -> bytes:
        texts.text(obj, "", lambda: other, 0)
        return b"made too late."

    assert texts.text(obj, "", encode, 0) is other
    assert texts._bytes == len(other)
