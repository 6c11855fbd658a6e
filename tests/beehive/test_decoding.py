"""Typed decoding, from several threads."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from beehive.decoding import convert, decode_json, has_more_values, json_decoder

ROOT = Path(__file__).parents[2]
PACKAGES = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "tests")
UNDER_LOCK = ROOT / "beehive" / "decoding.py"

AT_ONCE = """
import sys, threading
import msgspec
from beehive.decoding import convert

sys.setswitchinterval(1e-6)
for _ in range(40):
    inner = [msgspec.defstruct(f"S{i}", [("a", int, 0), ("b", str, "")]) for i in range(20)]
    outer = msgspec.defstruct("T", [(f"f{i}", kind) for i, kind in enumerate(inner)])
    barrier = threading.Barrier(4)
    value = {f"f{i}": {"a": 1} for i in range(20)}

    def decode():
        barrier.wait()
        convert(value, outer)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


class Point(msgspec.Struct):
    """A value of two numbers."""

    x: int
    y: int = 0


def test_a_text_and_a_value_become_the_same() -> None:
    assert decode_json(b'{"x": 1}', Point) == convert({"x": 1}, Point) == Point(1)
    assert convert({"x": "1"}, Point, strict=False) == Point(1)
    assert json_decoder(Point) is json_decoder(Point)


@pytest.mark.parametrize("text", [b'{"x": "a"}', b"{"])
def test_a_value_of_another_form_is_an_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(text, Point)


@pytest.mark.parametrize("text", [b'["\xff"]', '["\ud800"]'])
@pytest.mark.parametrize("error", [msgspec.DecodeError, UnicodeError])
def test_what_is_not_unicode_is_no_json_either(text: bytes | str, error: type[Exception]) -> None:
    """A damaged record of a container ended the start of its runtime: only what is no JSON was expected."""
    with pytest.raises(error):
        decode_json(text, list[str])


def test_threads_that_decode_a_type_for_the_first_time_together_do_not_crash() -> None:
    """With msgspec.convert in place of ours, the process ends with SIGSEGV."""
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", AT_ONCE], check=False, cwd=ROOT, capture_output=True
    )
    assert ended.returncode == 0, ended.stderr.decode()


_MSGSPEC_DECODES = re.compile(r"\b(msgspec|json|msgpack)\.(Decoder|convert|decode)\(")


def direct_uses(path: Path) -> list[str]:
    """Return the places of a file that decode to a type with msgspec itself."""
    text = path.read_text()
    if not _MSGSPEC_DECODES.search(text):
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, typed = node.func.attr, any(keyword.arg == "type" for keyword in node.keywords)
            decodes = name in ("Decoder", "convert") or (name == "decode" and typed)
            if decodes and ast.unparse(node.func).startswith(("msgspec.", "json.", "msgpack.")):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_all_typed_decoding_goes_through_the_module() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path != UNDER_LOCK]
    assert [place for path in files for place in direct_uses(path)] == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"[" + b"1," * 99 + b"1]", 100),
        (b"[" + b'"",' * 99 + b'""]', 100),
        (b'["' + b"a," * 1000 + b'"]', 1),
        (b'["' + b'\\",' * 1000 + b'"]', 1),
        (b"[" + b'"\\\\",' * 99 + b'""]', 100),
        (b"{" + b'"a":"b",' * 99 + b'"":0}', 100),
        (b"[" + b"[]," * 99 + b"[]]", 100),
        (b"[" * 100 + b"]" * 100, 100),
    ],
    ids=["numbers", "texts", "commas", "quotes", "backslashes", "members", "lists", "deep"],
)
def test_values_are_counted_without_decoding(text: bytes, values: int) -> None:
    """Texts count once, whatever is in them; no more than twice what there is is counted."""
    assert has_more_values(text, values - 1) or values == 1
    assert not has_more_values(text, 2 * values + 1)


def test_values_are_counted_at_the_beginning_of_a_long_text() -> None:
    text = b"[" + b"[]," * 1_000_000 + b"0]"
    assert has_more_values(text, 200_000)
    assert not has_more_values(b'["' + b"a," * 2_000_000 + b'"]', 1)


def test_numbers_of_thousands_of_digits_count_as_many() -> None:
    """2.7 MB of them took 37 ms to read and 100 ms to write."""
    assert has_more_values(b"[" + b",".join([b"7" * 3000] * 900) + b"]", 25_000)
    assert not has_more_values(b"[" + b",".join([b"7" * 17] * 24_000) + b"]", 25_000)
    assert not has_more_values(b'["' + b"7" * 2_000_000 + b'", 7]', 25_000), "they are a text"
