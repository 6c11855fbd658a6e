"""Messages: builders as KubeEdge has them, and contents that stay undecoded until somebody asks."""

import base64
import json
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import ContentError, Header, Message, Operation, Resource, Route, decode, encode
from beehive.resource import Form
from beehive.simulation import EPOCH, Simulation

CLOCK = Simulation(7).clock
REQUEST = Message(
    Header(msg_id="id", parent_msg_id="its parent", timestamp=1, resourceversion="5", sync=True, type="channel"),
    Route(source="edged", destination="d", group="meta", operation="query", resource="default/pod/a"),
    "question",
)


class Meta(msgspec.Struct):
    """A small object."""

    name: str
    labels: dict[str, str] = {}


def test_a_new_message_has_an_id_and_the_clock_s_time() -> None:
    """UUID version 4, milliseconds; ids of one clock differ and come from its randomness."""
    message = Message.new(CLOCK, source="edged", resource="r", operation="o", content=1, group="g", parent_id="p")
    assert uuid.UUID(message.id).version == 4
    assert uuid.UUID(message.id).variant == uuid.RFC_4122
    assert str(uuid.UUID(message.id)) == message.id
    assert message.header.timestamp == int(EPOCH * 1000)
    assert (message.parent_id, message.route.group) == ("p", "g")
    ids = {CLOCK.new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {one[19] for one in ids} == set("89ab")


def test_a_reply_is_kubeedge_s_new_resp_by_message() -> None:
    """Parent, source, group, resource and type of the request; nothing else of its header."""
    reply = REQUEST.reply(CLOCK, "answer")
    assert reply.header == Header(reply.id, "id", CLOCK.now_ms(), type="channel")
    assert reply.route == Route(source="edged", group="meta", operation=Operation.RESPONSE, resource="default/pod/a")
    assert reply.content == "answer"
    assert REQUEST.reply(CLOCK, source="metamanager").route.source == "metamanager"


def test_an_error_is_kubeedge_s_new_error_message_of_today() -> None:
    """Parent is the request's id (in 2019 it was the request's parent), same resource, no source."""
    error = REQUEST.error(CLOCK, "not found")
    assert error.header == Header(error.id, "id", CLOCK.now_ms())
    assert error.route == Route(operation=Operation.ERROR, resource="default/pod/a")
    assert error.content == "not found"
    assert REQUEST.error(CLOCK, "x", source="s", group="g").route.group == "g"


def test_a_message_is_never_changed_only_copied() -> None:
    """Copies share the unchanged parts."""
    copy = REQUEST.with_header(sync=False).with_route(group="other").with_content(2)
    assert (copy.header.sync, copy.route.group, copy.content) == (False, "other", 2)
    assert (REQUEST.header.sync, REQUEST.route.group, REQUEST.content) == (True, "meta", "question")
    with pytest.raises(AttributeError):
        REQUEST.content = 1  # type: ignore[misc]


def arrived(content: Any) -> Message:
    """The message as it comes out of a frame."""
    return decode(encode(REQUEST.with_content(content)))


@pytest.mark.parametrize("make", [REQUEST.with_content, arrived])
def test_a_content_is_read_as_the_asked_type(make: Any) -> None:
    """Objects, strings of JSON, and base64 of JSON (a Go []byte) all read as the object (docs/protocol.md, "Content on
    the wire").
    """
    value = {"name": "a", "labels": {"x": "1"}}
    wanted = Meta("a", {"x": "1"})
    for content in (value, wanted, json.dumps(value), json.dumps(value).encode()):
        assert make(content).content_as(Meta) == wanted
        assert make(content).content_as(dict) == value
        assert make(content).content_as(dict[str, Any]) == value
    assert make([value]).content_as(list[Meta]) == [wanted]
    assert make(["a"]).content_as(list[str]) == ["a"]
    assert make("text").content_as(str) == "text"
    assert make(b"\x00\x01").content_as(bytes) == b"\x00\x01"
    assert make("text").content_as(Any) == "text"
    assert make(None).content_as(Meta | None) is None
    assert make(17).content_as(float) == 17.0


@pytest.mark.parametrize("make", [REQUEST.with_content, arrived])
@pytest.mark.parametrize("content", [17, "not json", [], {"name": 5}, {"labels": {}}, None, "AAAA", "\\ud800"])
def test_a_content_of_another_kind_is_an_error_that_names_the_message(make: Any, content: Any) -> None:
    """It names operation, resource and id and the path inside the content."""
    with pytest.raises(ContentError, match="query default/pod/a id"):
        make(content).content_as(Meta)


def test_items_of_a_decoded_list_are_checked_too() -> None:
    """A Python list is not taken on trust for a list of something."""
    with pytest.raises(ContentError):
        REQUEST.with_content(["text"]).content_as(list[int])


def test_what_receivers_can_change_is_copied() -> None:
    """Two of them may have a message: each has a list of its own. Items that nobody can change are not copied."""
    route, plain = Route("edged"), {"a": 1}
    shared = REQUEST.with_content([route]).content_as(list[Route])
    assert shared[0] is route
    assert REQUEST.with_content({"a": route}).content_as(dict[str, Route])["a"] is route
    own = REQUEST.with_content([plain]).content_as(list[dict[str, int]])
    assert own[0] is not plain
    for content, kind in (([route], list[Route]), ({"a": 1}, dict[str, int]), ([plain], list[dict[str, int]])):
        read = REQUEST.with_content(content).content_as(kind)
        assert read == content
        assert read is not content


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        (b"raw", b"raw"),
        ("text", b"text"),
        ("é", "é".encode()),
        (None, b"null"),
        ({"a": 1}, b'{"a":1}'),
        (msgspec.Raw(b'{"a" : 1}'), b'{"a" : 1}'),
        (msgspec.Raw(b'"text"'), b"text"),
        (msgspec.Raw(b""), b"null"),
    ],
)
def test_content_bytes_are_get_content_data(content: Any, stored: bytes) -> None:
    """Bytes as they are, a string's own bytes, otherwise the JSON text."""
    assert REQUEST.with_content(content).content_bytes() == stored


def test_an_undecoded_content_is_forwarded_to_the_byte() -> None:
    """Decoding the envelope and encoding it again leaves the body alone, spaces and number forms included."""
    body = b'{ "replicas" : 1.0, "big" : 12345678901234567890, "text" : "\\u003c" }'
    frame = b'{"header":{"msg_id":"i","timestamp":1},"route":{"group":"resource"},"content":' + body + b"}"
    assert encode(decode(frame)) == frame
    assert encode(decode(frame).with_header(sync=True).with_header(sync=False)) == frame


@given(st.binary())
def test_bytes_survive_the_wire_as_base64(data: bytes) -> None:
    """Law: bytes in, the same bytes out, and Go would read the padded standard alphabet."""
    message = arrived(data)
    assert message.content_as(bytes) == data
    assert message.content_as(str) == base64.b64encode(data).decode()


@pytest.mark.parametrize("text", ['"\\ud800"', '{"name":"\\udfff"}'])
def test_half_a_character_in_a_content_is_an_error_not_a_crash(text: str) -> None:
    """Only a content can still hold one; it shows when it is read."""
    message = decode(f'{{"header":{{"msg_id":"i","timestamp":1}},"route":{{}},"content":{text}}}')
    for kind in (str, Meta):
        with pytest.raises(ContentError):
            message.content_as(kind)
    if text[0] == '"':
        with pytest.raises(ContentError):
            message.content_bytes()


def test_the_subject_is_parsed_once_and_does_not_travel() -> None:
    """Each module on a message's way reads it; the wire has the string alone."""
    message = decode(encode(REQUEST))
    assert message.subject == Resource(type="pod", namespace="default", name="a")
    assert message.subject is message.subject
    assert encode(message) == encode(REQUEST) and message == REQUEST.with_content(message.content)


def test_a_changed_route_has_another_subject() -> None:
    """cloudhub adds the node to what a node sends, and the grammar of the cloud finds it."""
    assert REQUEST.subject.name == "a"
    there = REQUEST.with_route(resource="node/n1/default/pod/b")
    assert there.subject_on_cloud == Resource(type="pod", namespace="default", name="b", node="n1")
    assert there.subject.type == ""


@pytest.mark.parametrize("text", ["", "a//b", "/", "node"])
def test_a_subject_outside_the_grammar_has_no_type(text: str) -> None:
    """A peer chooses the text: it is kept whole, and reading it never fails."""
    message = REQUEST.with_route(resource=text)
    assert (message.subject.type, message.subject.tail) == ("", text)
    assert message.subject.form in (Form.OTHER, Form.NODE) and message.subject_on_cloud.node == ""
