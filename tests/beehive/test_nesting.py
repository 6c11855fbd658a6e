"""JSON that others send has a bound of nesting, the same one on every interpreter."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.decoding import decode_json
from beehive.nesting import LEVELS, NestingError, check_nesting, read_json
from tests.docs import REPOSITORY

_PACKAGES = ("beehive", "edged", "edgehub", "metamanager", "modules", "protos")
_OWN = {
    "beehive/decoding.py": "the decoder with the bound",
    "beehive/nesting.py": "the bound",
    "modules/runtimes/shim/protocol.py": "the peer is the process that started this one, which is spared the import",
}


def _lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def _objects(levels: int) -> str:
    return '{"[\\"{":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("nested", [_lists, _objects])
@pytest.mark.parametrize("read", [decode_json, read_json, lambda text: decode_json(text.encode())])
def test_what_is_nested_too_deeply_is_refused(nested: Any, read: Any) -> None:
    assert read(nested(LEVELS)) == json.loads(nested(LEVELS))
    for levels in (LEVELS + 1, 2_000, 100_000):
        with pytest.raises(NestingError, match="more than 256 levels") as refused:
            read(nested(levels))
        assert isinstance(refused.value, RecursionError), "as the interpreter's own bound"
        assert isinstance(refused.value, ValueError if read is read_json else msgspec.DecodeError)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 3_000, '["' + "]" * 999 + '",' + "[" * 300])
def test_a_text_without_end_is_no_way_around(text: str) -> None:
    with pytest.raises(NestingError):
        check_nesting(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
def test_pythons_decoder_is_bounded_in_each_of_its_encodings(encoding: str) -> None:
    assert read_json('["\u2222"]'.encode(encoding).removeprefix(b"\xef\xbb\xbf")) == ["\u2222"]
    with pytest.raises(NestingError):
        read_json(('["\u2222",' + _lists(LEVELS) + "]").encode(encoding))


_VALUES = st.recursive(
    st.text(alphabet='[]{}"\\a\u2222\ud800', max_size=400) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[}"\\', max_size=9), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(_VALUES, st.integers(0, LEVELS + 20), st.booleans())
def test_brackets_in_texts_do_not_count(value: Any, levels: int, is_ascii: bool) -> None:
    text = "[" * levels + json.dumps(value, ensure_ascii=is_ascii) + "]" * levels
    is_too_deep = levels + _levels(value) > LEVELS
    for form in (text, text.encode("utf-8", "surrogatepass")):
        try:
            check_nesting(form)
        except NestingError:
            assert is_too_deep
        else:
            assert not is_too_deep


def _levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


def test_nothing_is_decoded_without_the_bound() -> None:
    """Decoders of msgspec and of Python are bounded by the interpreter only, each version by another number."""
    found = {
        str(path.relative_to(REPOSITORY))
        for package in _PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if any(each in path.read_text() for each in ("json.loads(", "json.load(", "json.decode(", "json.Decoder("))
    }
    assert found == set(_OWN)
