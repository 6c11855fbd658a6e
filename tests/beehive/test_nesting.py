"""JSON that others send has a bound of nesting, the same one on every interpreter."""

import ast
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.decoding import decode_json
from beehive.nesting import LEVELS, NestingError, check_nesting, is_nested_deeper, read_json
from metamanager.unreferenced import unreferenced
from modules.apimachinery.types.codec import from_value
from tests.docs import REPOSITORY

_PACKAGES = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos")
_OWN = {
    "beehive/decoding.py": "the decoder with the bound",
    "beehive/nesting.py": "the bound",
    "modules/processes/edgecore/upgrade/updater/journal.py": "it runs without the packages of both versions",
    "modules/runtimes/shim/protocol.py": "the peer is the process that started this one, which is spared the import",
}


_CAUGHT = {
    "beehive/codec.py": "a content that a module has built is encoded",
    "beehive/nesting.py": "the bound's error is one",
    "beehive/trace/frames.py": "msgpack; and the data of a note are encoded",
    "beehive/trace/redact.py": "JSON in a text of JSON in a text of JSON",
    "edged/shutdown/bus.py": "signatures of D-Bus, which jeepney reads",
    "edged/volumes/sub_path.py": "`os.path.realpath` before Python 3.13",
    "modules/lab/replay/normalize.py": "JSON in a text of JSON",
    "modules/lab/replay/termination.py": "JSON in a text of JSON",
    "modules/processes/edgecore/upgrade/updater/journal.py": "an answer of the version on probation",
    "modules/runtimes/oci/images/worker/hosts.py": "TOML",
}


def _lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def _objects(levels: int) -> str:
    return '{"[\\"{":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("nested", [_lists, _objects])
@pytest.mark.parametrize("read", [decode_json, read_json, lambda text: decode_json(text.encode())])
def test_a_too_deeply_nested_value_is_refused(nested: Any, read: Any) -> None:
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


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", '{"a": [-Infinity]}'])
def test_a_number_without_an_end_is_no_json(number: str) -> None:
    """Python's decoder takes them; what is then encoded is no JSON, or null."""
    with pytest.raises(json.JSONDecodeError):
        read_json(number)
    with pytest.raises(json.JSONDecodeError):
        read_json(number, object_pairs_hook=dict)


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


@given(_VALUES, st.integers(0, 12))
def test_the_levels_of_a_value_are_counted_without_its_text(value: Any, levels: int) -> None:
    assert is_nested_deeper(value, levels) is (_levels(value) > levels)


@pytest.mark.parametrize("levels", [1, 40, LEVELS - 1])
def test_a_smaller_bound(levels: int) -> None:
    for form in (_lists(levels), _lists(levels).encode()):
        check_nesting(f" {form}" if isinstance(form, str) else form, levels=levels)
    with pytest.raises(NestingError, match=f"more than {levels} levels"):
        check_nesting(_lists(levels + 1), levels=levels)


def test_the_levels_of_a_value_are_counted_without_recursion() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert is_nested_deeper(value, 100_000)
    assert not is_nested_deeper(value, 100_001)
    while value:
        value = value.pop()


def _levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


@pytest.mark.parametrize("levels", [LEVELS + 1, 100_000])
def test_a_part_that_nobody_has_looked_at_is_refused_as_well(levels: int) -> None:
    """The content of a message in a recording is one; whoever decodes handles DecodeError and no RecursionError."""
    with pytest.raises(NestingError) as refused:
        decode_json(msgspec.Raw(_lists(levels).encode()))
    assert isinstance(refused.value, msgspec.DecodeError)


def _at(calls: int, of: Callable[[], Any]) -> Any:
    return of() if calls == 0 else _at(calls - 1, of)


@pytest.mark.parametrize("nested", [_lists, _objects])
def test_a_decoded_value_can_be_walked(nested: Callable[[int], str]) -> None:
    """By what recurses over it, with 200 calls under way."""
    user = f'{{"spec":{nested(LEVELS - 1)}}}'
    assert _at(200, lambda: from_value(dict[str, Any], decode_json(user))) is not None
    assert _at(200, lambda: unreferenced({"secret": ['{"metadata":{"name":"a","namespace":"b"}}']}, [user]))


def test_no_recursion_is_expected_where_none_can_be() -> None:
    """What is decoded through the two modules is no deeper than `LEVELS`, and YAML than `yaml_reader.DEPTH`."""
    found = {
        str(path.relative_to(REPOSITORY))
        for package in _PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if "RecursionError" in (text := path.read_text())
        and any(isinstance(node, ast.Name) and node.id == "RecursionError" for node in ast.walk(ast.parse(text)))
    }
    assert found == set(_CAUGHT)


def test_nothing_is_decoded_without_the_bound() -> None:
    """Decoders of msgspec and of Python are bounded by the interpreter only, each version by another number."""
    found = {
        str(path.relative_to(REPOSITORY))
        for package in _PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if any(each in path.read_text() for each in ("json.loads(", "json.load(", "json.decode(", "json.Decoder("))
    }
    assert found == set(_OWN)
