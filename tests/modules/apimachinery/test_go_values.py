"""The words of Go's readers of times and base64."""

import base64
import calendar
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.go_values import USUAL_TIME, base64_error, go_text, time_error

LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO = "2006-01-02T15:04:05.000000Z07:00"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-24T10:00:00Z",
        "2026-11-24T10:00:00.5Z",
        "2026-11-24T10:00:00,123456789+02:00",
        "2024-02-29T1:00:00-24:60",
        "0000-02-29T00:00:00Z",
    ],
)
def test_a_time(text: str) -> None:
    assert time_error(text) == ""


@pytest.mark.parametrize("year", [2024, 2026])
def test_the_usual_times_are_all_but_those_of_a_leap_day(year: int) -> None:
    """They are read without a look at the calendar."""
    days = [(month, day) for month in range(14) for day in range(33)]
    usual = [each for each in days if re.search(USUAL_TIME, f"{year}-{each[0]:02}-{each[1]:02}T10:00:00Z")]
    known = [each for each in days if 1 <= each[0] <= 12 and 1 <= each[1] <= calendar.monthrange(2026, each[0])[1]]
    assert usual == known


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soon", f'"soon" as "{LAYOUT}": cannot parse "soon" as "2006"'),
        ("", f'"" as "{LAYOUT}": cannot parse "" as "2006"'),
        ("2026-11-24", f'"2026-11-24" as "{LAYOUT}": cannot parse "" as "T"'),
        ("2026/11/24", f'"2026/11/24" as "{LAYOUT}": cannot parse "/11/24" as "-"'),
        ("2026-1-2T03:04:05Z", f'"2026-1-2T03:04:05Z" as "{LAYOUT}": cannot parse "1-2T03:04:05Z" as "01"'),
        ("2026-13-01T00:00:00Z", '"2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-29T00:00:00Z", '"2026-02-29T00:00:00Z": day out of range'),
        ("2026-02-00T00:00:00Z", '"2026-02-00T00:00:00Z": day out of range'),
        ("2026-01-01T24:00:00Z", '"2026-01-01T24:00:00Z": hour out of range'),
        ("2026-01-01T00:60:00Z", '"2026-01-01T00:60:00Z": minute out of range'),
        ("2026-01-01T00:00:60Z", '"2026-01-01T00:00:60Z": second out of range'),
        ("2026-01-01T00:00:00", f'"2026-01-01T00:00:00" as "{LAYOUT}": cannot parse "" as "Z07:00"'),
        ("2026-01-01T00:00:00+25:00", '"2026-01-01T00:00:00+25:00": time zone offset hour out of range'),
        ("2026-01-01T00:00:00Zulu", '"2026-01-01T00:00:00Zulu": extra text: "ulu"'),
        ('a"\\é', f'"a\\"\\\\\\xc3\\xa9" as "{LAYOUT}": cannot parse "a\\"\\\\\\xc3\\xa9" as "2006"'),
    ],
)
def test_no_time(text: str, words: str) -> None:
    assert time_error(text) == f"parsing time {words}"


def test_a_micro_time_has_six_digits_after_the_point() -> None:
    assert time_error("2026-11-24T10:00:00.000001Z", is_micro=True) == ""
    for text, rest in [("2026-11-24T10:00:00Z", "Z"), ("2026-11-24T10:00:00.5Z", ".5Z")]:
        told = time_error(text, is_micro=True)
        assert told == f'parsing time "{text}" as "{MICRO}": cannot parse "{rest}" as ".000000"'


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("YQ", 0), ("YWJjYQ", 4), ("a*bc", 1), ("YWJj!", 4), ("YQ=", 3), ("YQ=a", 2), ("Y===", 1), ("====", 0),
        ("YQ==YQ==", 4), ("YWI=\nx", 5), ("YWJj\nYQ", 5), ("é", 0), ("YWJjé", 4),
    ],
)  # fmt: skip
def test_no_base64(text: str, at: int) -> None:
    assert base64_error(text) == f"illegal base64 data at input byte {at}"


@given(st.binary(max_size=40), st.lists(st.integers(0, 60), max_size=3))
def test_base64_with_line_ends_anywhere(plain: bytes, places: list[int]) -> None:
    text = base64.b64encode(plain).decode()
    for at in places:
        text = f"{text[:at]}\n{text[at:]}"
    assert base64_error(text) == ""


def test_a_value_in_the_words_of_go() -> None:
    assert go_text({"b": [1, None, {}], "a": {"c": True, "d": "x y", "e": False}}) == (
        "map[a:map[c:true d:x y e:false] b:[1 <nil> map[]]]"
    )
