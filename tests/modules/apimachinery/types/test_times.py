"""Times on the wire and in nanoseconds agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.types import Nanoseconds, TimeError, format_micro_time, format_time, parse_time, seconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-20T01:54:50Z", 1_795_139_690_000_000_000),
        ("2026-11-20T02:54:50+01:00", 1_795_139_690_000_000_000),
        ("2026-11-20T01:54:50.018830Z", 1_795_139_690_018_830_000),
        ("2026-11-20T01:54:50.018830123Z", 1_795_139_690_018_830_000),
    ],
)
def test_reads_any_zone_and_fraction(text: str, nanoseconds: int) -> None:
    """Every RFC 3339 form that Kubernetes writes is understood, to the microsecond."""
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20T01:54:50", "2026-13-20T01:54:50Z"])
def test_refuses_other_texts_than_times(text: str) -> None:
    """A text without a zone or outside the calendar is an error that shows it."""
    with pytest.raises(TimeError, match="cannot read the time"):
        parse_time(text)


@given(st.integers(min_value=0, max_value=4_102_444_800_000_000))
def test_micro_time_reads_back(microseconds: int) -> None:
    """A MicroTime keeps every microsecond."""
    at = Nanoseconds(microseconds * 1000)
    assert parse_time(format_micro_time(at)) == at


@given(st.integers(min_value=0, max_value=4_102_444_800), st.integers(min_value=0, max_value=999_999_999))
def test_time_is_cut_to_seconds(whole: int, rest: int) -> None:
    """A Time drops the fraction and never rounds up into the future."""
    assert parse_time(format_time(Nanoseconds(seconds(whole) + rest))) == seconds(whole)
