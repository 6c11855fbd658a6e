"""What Go says of a text that is not JSON, as its `encoding/json` words it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.nesting import read_json
from modules.apimachinery.go_json import syntax_error, type_error, uint16_error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "unexpected end of JSON input"),
        (b"i\xb7", "invalid character 'i' looking for beginning of value"),
        (b'{"a":}', "invalid character '}' looking for beginning of value"),
        (b'{"a":1, }', "invalid character '}' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b"[1,\n]", "invalid character ']' looking for beginning of value"),
        (b"{a}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b'[{"}":1} 2]', "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'{"a":"b', "unexpected end of JSON input"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"[-Infinity]", "invalid character 'I' looking for beginning of value"),
        (b"{}", ""),
    ],
)
def test_the_words_for_a_text(text: bytes, words: str) -> None:
    assert syntax_error(text) == words


@pytest.mark.parametrize(
    ("value", "word"),
    [([1], "array"), ("x", "string"), (1.5, "number"), (True, "bool"), (None, "null"), ({}, "object")],
)
def test_the_words_for_a_value_of_another_type(value: Any, word: str) -> None:
    assert type_error(value, "map[string]interface {}").startswith(f"json: cannot unmarshal {word} into Go value of")


@pytest.mark.parametrize(("text", "is_port"), [("65535", True), ("65536", False), ("9" * 5000, False)])
def test_a_port_has_sixteen_bits(text: str, *, is_port: bool) -> None:
    assert (uint16_error(text) == "") is is_port


@given(st.text(max_size=30))
def test_a_text_is_json_or_something_is_reported_of_it(text: str) -> None:
    """Never both, and nothing is raised."""
    try:
        read_json(text.encode("utf-8", "replace").decode())
    except ValueError:
        assert syntax_error(text.encode("utf-8", "replace"))
    else:
        assert not syntax_error(text.encode("utf-8", "replace"))
