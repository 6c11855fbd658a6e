"""Go's refusals of texts that are no durations."""

import pytest

from modules.apimachinery.go_durations import duration_error


@pytest.mark.parametrize(
    "text", ["0", "0s", "30s", "-5s", "+5s", "1h", "100h", "1m30s", "1.5s", ".5s", "1.s", "5ms", "1µs", "2562047h"]
)
def test_durations(text: str) -> None:
    assert duration_error(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", 'invalid duration "x"'),
        ("invalid", 'invalid duration "invalid"'),
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        (".s", 'invalid duration ".s"'),
        (" 5s", 'invalid duration " 5s"'),
        ("1", 'missing unit in duration "1"'),
        ("1m0", 'missing unit in duration "1m0"'),
        ("5 s", 'unknown unit " s" in duration "5 s"'),
        ("1e3s", 'unknown unit "e" in duration "1e3s"'),
        ("1d", 'unknown unit "d" in duration "1d"'),
        ("9999999999h", 'invalid duration "9999999999h"'),
        ("9" * 50 + "s", f'invalid duration "{"9" * 40}"'),
        ('1"\\\n', 'unknown unit "\\"\\\\\\x0a" in duration "1\\"\\\\\\x0a"'),
    ],
)
def test_other_texts_are_told_in_the_words_of_go(text: str, why: str) -> None:
    assert duration_error(text) == f"time: {why}"
