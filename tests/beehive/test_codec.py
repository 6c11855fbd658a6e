"""Frames: what a Go peer writes is read as Go would read it; what is no message is refused, never raised through."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beehive import ContentError, FrameError, Header, Message, Operation, Route, decode, encode
from beehive.codec import LONGEST_TEXT, SLOW_BYTES
from beehive.nesting import LEVELS

FRAME: dict[str, Any] = {
    "header": {"msg_id": "id", "parent_msg_id": "parent", "timestamp": 17, "resourceversion": "9", "sync": True},
    "route": {"source": "edgecontroller", "group": "resource", "operation": "insert", "resource": "default/pod/a"},
    "content": {"metadata": {"name": "a"}},
}
MESSAGE = Message(
    Header(msg_id="id", parent_msg_id="parent", timestamp=17, resourceversion="9", sync=True),
    Route(source="edgecontroller", group="resource", operation="insert", resource="default/pod/a"),
    {"metadata": {"name": "a"}},
)


def text(value: Any) -> str:
    """JSON text without spaces, as Go writes it."""
    return json.dumps(value, separators=(",", ":"))


def same(frame: bytes | str, wanted: Message = MESSAGE) -> None:
    """Assert that the frame is the message."""
    got = decode(frame)
    assert (got.header, got.route) == (wanted.header, wanted.route)
    assert got.content_as(Any) == wanted.content_as(Any)


def test_a_frame_is_written_in_go_s_order_with_go_s_omissions() -> None:
    """Empty optional fields are left out; msg_id, timestamp, route and content never are (docs/protocol.md, "Message
    fields").
    """
    assert encode(MESSAGE).decode() == text(FRAME)
    assert encode(Message()) == b'{"header":{"msg_id":"","timestamp":0},"route":{},"content":null}'
    everything = Message(Header("i", "p", 1, "rv", True, "channel"), Route("s", "d", "g", "o", "r"), "c")  # noqa: FBT003
    assert encode(everything) == (
        b'{"header":{"msg_id":"i","parent_msg_id":"p","timestamp":1,"resourceversion":"rv","sync":true,"type":"channel"},'
        b'"route":{"source":"s","destination":"d","group":"g","operation":"o","resource":"r"},"content":"c"}'
    )


@pytest.mark.parametrize(
    ("content", "wire"),
    [
        ("text", b'"text"'),
        (b"\x00\xffbytes", b'"AP9ieXRlcw=="'),
        (None, b"null"),
        (msgspec.Raw(b""), b"null"),
        (msgspec.Raw(b'{"a" : 1.50}'), b'{"a" : 1.50}'),
        ([1, 2.5, True], b"[1,2.5,true]"),
        (Operation.INSERT, b'"insert"'),
        (Header(msg_id="x"), b'{"msg_id":"x","timestamp":0}'),
        ("<&>\u2028é", '"<&>\u2028é"'.encode()),
    ],
)
def test_contents_have_their_wire_form(content: Any, wire: bytes) -> None:
    """Bytes become padded base64, an undecoded content stays as it came, to the byte (docs/protocol.md, "Content on the
    wire").
    """
    assert encode(Message(content=content)).endswith(b'"content":' + wire + b"}")


@pytest.mark.parametrize("content", [object(), {1.5: object()}, "\ud800", {"a": float}])
def test_a_content_without_json_form_is_an_error_that_names_the_message(content: Any) -> None:
    """Not a TypeError from the depth of a library."""
    with pytest.raises(ContentError, match="default/pod/a"):
        encode(MESSAGE.with_content(content))


@pytest.mark.parametrize(
    "frame",
    [
        text(FRAME),
        text(FRAME).encode(),
        text(FRAME) + "\n",
        "\r\n\t " + json.dumps(FRAME, indent=2),
        text(FRAME) + '{"header":{}} more',
        text(FRAME) + "\x00",
        text({**FRAME, "unknown": [1, {"header": 2}]}),
        text({"content": FRAME["content"], "route": FRAME["route"], "header": FRAME["header"]}),
        text({"HEADER": FRAME["header"], "Route": FRAME["route"], "cONTENT": FRAME["content"]}),
        text({**FRAME, "header": {**FRAME["header"], "type": None, "future": {"a": 1}}}),
        text({**FRAME, "header": {key.upper(): value for key, value in FRAME["header"].items()}}),
        text({**FRAME, "route": {**FRAME["route"], "destination": None}}),
        text(FRAME).replace('"header"', r'"\u0068eader"'),
        text(FRAME).replace('"msg_id"', r'"m\u0073g_id"'),
        text(FRAME).replace('"msg_id"', '"m\u017fg_id"'),
        text(FRAME).replace('"default/pod/a"', r'"default\/pod\/a"'),
        text(FRAME).replace('"timestamp":17', '"timestamp":17,"timestamp":null'),
        text(FRAME).replace('"msg_id":"id"', '"msg_id":"old","MSG_ID":"older","msg_id":"id"'),
    ],
)
def test_what_go_tolerates_is_tolerated(frame: str | bytes) -> None:
    """Order, case, unknown keys, nulls, escapes, repeated keys and bytes after the value change nothing."""
    same(frame)


def test_objects_that_come_twice_are_merged_in_order() -> None:
    """encoding/json decodes each into the same struct, wherever it stands and however its key is written."""
    header, route = text(FRAME["header"]), text(FRAME["route"])
    rest = f'"route":{route},"content":{text(FRAME["content"])}'
    same(f'{{"header":{{"msg_id":"no","type":""}},"header":{header},{rest}}}')
    same(f'{{"header":{header},{rest},"header":{{}}}}')
    same(f'{{"header":{header},{rest},"HEADER":null}}')
    without_sync = header.replace(',"sync":true', "")
    same(f'{{"header":{{"msg_id":"no","sync":true}},"Header":{without_sync},{rest}}}')
    same(rf'{{"header":{{"sync":true,"msg_id":"no"}},"\u0068eader":{without_sync},{rest}}}')
    twice = decode(f'{{"header":{header},"route":{route},"content":1,"content":2}}')
    assert twice.content_as(int) == 2
    late_route = decode(f'{{"header":{header},"route":{route},"content":1,"route":{{"group":"late"}}}}')
    assert (late_route.route.group, late_route.route.source) == ("late", "edgecontroller")
    assert decode(f'{{"header":{header},"content":1,"content":null}}').content_as(Any) is None


def test_a_content_that_speaks_of_headers_is_not_mistaken() -> None:
    """The words may stand anywhere inside of a content."""
    content = {"header": {"msg_id": "no"}, "route": ['"header"', "route"], "content": '"route":"header"'}
    same(text({**FRAME, "content": content}), MESSAGE.with_content(content))
    same(text({"content": content, **FRAME, "route": FRAME["route"]}), MESSAGE.with_content(FRAME["content"]))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("", "empty"),
        (b"", "empty"),
        (" \n", "empty"),
        ("{", "json"),
        (text(FRAME)[:-1], "json"),
        (text(FRAME)[:40], "json"),
        ("\ufeff" + text(FRAME), "json"),
        ("\x00", "json"),
        ('{"header":{"msg_id":"a\x01"}}', "json"),
        ('{"header":{"timestamp":01}}', "json"),
        ('{"header":{"timestamp":NaN}}', "json"),
        ('{"content":-Infinity}', "json"),
        ("{'header':{}}", "json"),
        ('{"header":{},}', "json"),
        ("null", "type"),
        ("[]", "type"),
        ('"frame"', "type"),
        ("17", "type"),
        ('{"header":[]}', "type"),
        ('{"header":"x"}', "type"),
        ('{"route":1}', "type"),
        ('{"header":{"msg_id":1}}', "type"),
        ('{"header":{"msg_id":{}}}', "type"),
        ('{"header":{"timestamp":"17"}}', "type"),
        ('{"header":{"timestamp":1.0}}', "type"),
        ('{"header":{"timestamp":1e3}}', "type"),
        ('{"header":{"timestamp":9223372036854775808}}', "type"),
        ('{"header":{"timestamp":-9223372036854775809}}', "type"),
        ('{"header":{"timestamp":' + "9" * 10_000 + "}}", "type"),
        ('{"header":{"timestamp":true}}', "type"),
        ('{"header":{"sync":"true"}}', "type"),
        ('{"header":{"sync":1}}', "type"),
        ('{"header":{"sync":null,"timestamp":1.5}}', "type"),
        ('{"route":{"operation":["insert"]}}', "type"),
    ],
)
def test_what_go_refuses_is_refused_with_a_countable_reason(frame: str | bytes, reason: str) -> None:
    """`FrameError.reason` is one of four words."""
    with pytest.raises(FrameError) as caught:
        decode(frame)
    assert caught.value.reason == reason


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_timestamps_are_64_bits(number: int) -> None:
    """All of int64, and not one more (see above)."""
    assert decode(f'{{"header":{{"timestamp":{number}}}}}').header.timestamp == number


def test_an_empty_object_is_an_empty_message() -> None:
    """As Go has it; who needs an id or an operation says so itself."""
    assert decode("{}").header == Header()
    assert decode('{"header":null,"route":null,"content":null}').content_as(Any) is None


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b"\xff", "\ufffd"),
        (b"\xe2\x82", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x90", "\ufffd\ufffd\ufffd"),
        ("\u00e9\U0001f41d".encode(), "\u00e9\U0001f41d"),
        (rb"\ud83d\udc1d", "\U0001f41d"),
        (rb"\ud83d", "\ufffd"),
        (rb"\udc1dx", "\ufffdx"),
    ],
)
def test_bytes_that_are_no_utf8_become_replacement_characters(raw: bytes, read: str) -> None:
    """One for each bad byte, and for each half of a surrogate pair, as encoding/json does it."""
    message = decode(b'{"header":{"msg_id":"' + raw + b'"},"content":"' + raw.replace(b"\\u", b"") + b'"}')
    assert message.header.msg_id == read


@pytest.mark.parametrize("depth", [LEVELS - 2, LEVELS + 1, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize(
    "place", ['{"content":%s}', '{"unknown":%s}', '{"header":{"msg_id":%s}}', '{"header":%s}', "%s"]
)
def test_deep_nesting_is_read_or_refused(place: str, opening: str, closing: str, depth: int) -> None:
    """It never ends in a RecursionError or a crash; what is moderate passes where anything may stand."""
    frame = place % (opening * depth + "1" + closing * depth)
    if place in ('{"content":%s}', '{"unknown":%s}') and depth < LEVELS:
        decode(frame)
    elif depth < LEVELS:
        _decode_or_refuse(frame)
    else:
        with pytest.raises(FrameError):
            decode(frame)


def test_huge_numbers_in_a_content_stay_as_they_came() -> None:
    """A content is not looked into: digits survive that neither a float nor int64 could hold."""
    for number in ("9" * 5000, "1e999", "-0.0", "0.1000000000000000055511151231257827"):
        frame = f'{{"header":{{"msg_id":"a","timestamp":1}},"route":{{}},"content":{number}}}'
        for one in (frame, frame.replace('"route":{}', '"route":null')):
            assert bytes(decode(one).content_raw()) == number.encode()
    assert encode(decode(frame)) == frame.encode()


def test_an_error_never_quotes_the_frame() -> None:
    """Frames carry secrets; errors are logged."""
    secret = "s3cr3t"  # noqa: S105
    for frame in (
        f'{{"header":{{"timestamp":"{secret}"}}}}',
        f'{{"route":{{"group":["{secret}"]}}}}',
        f'{{"content":"{secret}',
        f'{{"content":{{"password":"{secret}"}},}}',
    ):
        with pytest.raises(FrameError) as caught:
            decode(frame)
        assert secret not in str(caught.value)


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=20,
)
MESSAGES = st.builds(
    Message,
    st.builds(Header, STRINGS, STRINGS, st.integers(-(2**63), 2**63 - 1), STRINGS, st.booleans(), STRINGS),
    st.builds(Route, STRINGS, STRINGS, STRINGS, STRINGS, STRINGS),
    JSON_VALUES,
)


@given(MESSAGES)
def test_decode_undoes_encode(message: Message) -> None:
    """Law: every message comes back as it was, and its frame is a fixed point."""
    frame = encode(message)
    same(frame, message)
    assert encode(decode(frame)) == frame
    assert json.loads(frame)["content"] == message.content


@given(MESSAGES, st.data())
def test_the_slow_path_reads_the_same(message: Message, data: st.DataObject) -> None:
    """Law: any order, case and spacing of the keys, and unknown ones among them, give the same message."""

    def recased(key: str) -> str:
        upper = data.draw(st.booleans())
        return key.upper() if upper else key

    value = json.loads(encode(message))
    parts = {recased(key): value[key] for key in data.draw(st.permutations(["header", "route", "content"]))}
    parts["unknown"] = data.draw(JSON_VALUES)
    for part, fields in list(parts.items()):
        if part.lower() in ("header", "route"):
            parts[part] = {recased(key): field for key, field in fields.items()}
    indent, escaped = data.draw(st.sampled_from([None, 1])), data.draw(st.booleans())
    same(json.dumps(parts, indent=indent, ensure_ascii=escaped), message)


@given(st.binary(max_size=200) | st.text(max_size=200))
@example(b'{"header":{"msg_id":"\xff"}}')
@example('{"header":{"msg_id":"\ud800"},"content":"\udfff"}')
@example("\ud800")
def test_any_bytes_are_a_message_or_a_frame_error(frame: bytes | str) -> None:
    """Law: nothing else ever comes out of `decode`."""
    _decode_or_refuse(frame)


@given(st.recursive(JSON_VALUES, lambda inner: st.fixed_dictionaries({}, optional={
    "header": inner, "route": inner, "content": inner, "Header": inner, "msg_id": inner, "timestamp": inner,
    "sync": inner, "operation": inner,
}), max_leaves=8))  # fmt: skip
def test_mistyped_frames_are_a_message_or_a_frame_error(value: Any) -> None:
    """Law: valid JSON with the right keys and wrong values does no harm either."""
    _decode_or_refuse(json.dumps(value))


def _decode_or_refuse(frame: bytes | str) -> None:
    try:
        message = decode(frame)
    except FrameError as error:
        assert error.reason in ("empty", "json", "type", "too large")
        return
    assert all(isinstance(field, str) for field in msgspec.structs.astuple(message.route))
    assert isinstance(message.header.timestamp, int)
    assert decode(encode(message)).header == message.header


@pytest.mark.parametrize("field", ["source", "destination", "group", "operation", "resource"])
def test_a_text_of_the_route_has_a_kibibyte_at_most(field: str) -> None:
    """Tables and logs keep it."""
    for size, fits in ((LONGEST_TEXT, True), (LONGEST_TEXT + 1, False), (2_000_000, False)):
        frame = text({**FRAME, "route": {**FRAME["route"], field: "x" * size}})
        for variant in (frame, frame.replace('"route"', '"Route"')):
            if fits or len(variant) < SLOW_BYTES or variant is frame:
                assert (refusal_of(variant) == "") is fits
        route = Route(**{field: "x" * size})
        if fits:
            assert decode(encode(Message(route=route))).route == route
        else:
            with pytest.raises(ContentError, match="1024 bytes at most"):
                encode(Message(route=route))


def test_the_limit_of_a_text_is_in_bytes() -> None:
    fits = "é" * (LONGEST_TEXT // 2)
    assert refusal_of(text({"route": {"resource": fits}})) == ""
    assert refusal_of(text({"route": {"resource": fits + "é"}})) == "too large"


@pytest.mark.parametrize("field", ["msg_id", "parent_msg_id", "resourceversion", "type"])
def test_a_text_of_the_header_likewise(field: str) -> None:
    assert refusal_of(text({"header": {field: "x" * (LONGEST_TEXT + 1)}})) == "too large"


@pytest.mark.parametrize("where", ["{%s}", '{"header":{%s}}', '{"Route":{%s}}'])
def test_members_without_number_are_refused_before_they_are_read(where: str) -> None:
    """Sixteen mebibytes of them took five seconds."""
    assert refusal_of(where % ",".join(['"":0'] * 65)) == "too large"
    assert refusal_of(where % ",".join(['"":0'] * 60)) == ""
    assert refusal_of(where % ",".join(['"":0'] * 3_000_000)) == "too large"


def test_an_unusual_form_is_bounded_and_a_usual_one_has_any_size() -> None:
    content = "x" * SLOW_BYTES
    assert refusal_of(text({**FRAME, "content": content})) == ""
    assert refusal_of(text({**FRAME, "Content": content})) == "too large"
    assert refusal_of(text({**FRAME, "Content": content[:1000]})) == ""


def refusal_of(frame: str) -> str:
    """Why a frame is refused; empty when it is not."""
    try:
        decode(frame)
    except FrameError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    "frame",
    [
        b'{"content":"' + b"\xff" * SLOW_BYTES + b'"}',
        b'{"content":"\xff' + b"a" * SLOW_BYTES + b'"}',
        b'{"header":{"msg_id":"' + b"a" * SLOW_BYTES + b'"},"content":1}',
        b" " * SLOW_BYTES + b'{"header":{"msg_id":"a"},"route":{},"content":1}',
        b'{"Header":{},"content":[' + b"[]," * (SLOW_BYTES // 3) + b"[]]}",
    ],
    ids=["no UTF-8", "one bad byte", "a long text", "space", "another case"],
)
def test_large_frames_of_an_unusual_form_are_refused(frame: bytes) -> None:
    """Each byte of them would cost the only loop that reads the nodes' frames a hundred times as much."""
    with pytest.raises(FrameError) as caught:
        decode(frame)
    assert caught.value.reason == "too large"


def test_every_byte_that_is_no_utf8_is_replaced_in_one_pass() -> None:
    content = bytes(range(128, 256)) * 1000 + "\u00e9".encode()
    read = decode(b'{"content":"' + content + b'"}').content_as(str)
    assert read == "\ufffd" * 128_000 + "\u00e9"


def test_a_large_content_may_follow_a_resource_with_an_ampersand() -> None:
    """Go escapes the ampersand, and the escape must not hide a key that is there twice."""
    content = b'"' + b"x" * SLOW_BYTES + b'"'
    frame = b'{"header":{"msg_id":"1"},"route":{"resource":"a/b\\u0026c"},"content":' + content + b"}"
    assert decode(frame).route.resource == "a/b&c"
    twice = frame.replace(b'"route"', b'"he\\u0061der":{"msg_id":"2"},"route"')
    with pytest.raises(FrameError):
        decode(twice)
    assert decode(twice.replace(content, b"1")).header.msg_id == "2"
