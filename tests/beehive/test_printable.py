"""Foreign text that is shown: nothing in it moves a cursor, breaks a line or turns the writing round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.printable import CLIPPED, clipped, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 节点, \U0001f600", "plain, größer, 节点, \U0001f600"),
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("ad\u200bmin\xad \u2060x\ufeff", "ad\\u200bmin\\xad \\u2060x\\ufeff"),
        ("a\U000e0041\U000e007f", "a\\U000e0041\\U000e007f"),
        ("\u3164 \U000e0080", "\\u3164 \\U000e0080"),
        ("\u263a\ufe0f \u845b\U000e0100", "\u263a\ufe0f \u845b\U000e0100"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_control_characters_of_terminals_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_one_line_stays_one_line_and_lines_stay_lines(text: str) -> None:
    assert len(printable(text).splitlines()) <= 1
    lines = printable_lines(text)
    assert not set(lines) & {"\x1b", "\r", "\x9b", "\u202e", "\x00"}
    assert lines.count("\n") == text.count("\n")


def test_a_long_text_is_clipped_with_its_length() -> None:
    assert clipped("x" * CLIPPED) == "x" * CLIPPED
    assert clipped("x" * 2_000_000) == "x" * CLIPPED + "... (2000000 characters)"
