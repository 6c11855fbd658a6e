"""Go's durations and Kubernetes' sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.types.quantity import format_binary_quantity
from modules.processes.common.durations import format_duration, parse_duration, parse_size

GO_DURATIONS = [
    ("0s", 0.0),
    ("1ns", 1e-9),
    ("1.5µs", 1.5e-6),
    ("100ms", 0.1),
    ("2.5s", 2.5),
    ("10s", 10.0),
    ("1m0s", 60.0),
    ("2m30.5s", 150.5),
    ("4h0m0s", 14400.0),
    ("100h0m1s", 360001.0),
]


@pytest.mark.parametrize(("text", "seconds"), GO_DURATIONS)
def test_go_prints_and_reads_durations_so(text: str, seconds: float) -> None:
    """Each pair is what Go's `time.Duration` prints, and reads back."""
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("1h", 3600.0), (".5s", 0.5), ("1.s", 1.0), ("1μs", 1e-6)])
def test_other_forms_that_go_reads(text: str, seconds: float) -> None:
    """Go's reader takes more forms than its writer makes."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "s", ".s", "1 s", "1d", "-1s", "+1s", "1m0", "１s", "1s\n", "9" * 30 + "s"])
def test_other_texts_than_durations(text: str) -> None:
    """Anything else is refused, signs included: no setting means a time before now."""
    with pytest.raises(ValueError, match=r".*"):
        parse_duration(text)


@given(st.integers(0, 1000 * 3600 * 10**9))
def test_durations_survive_writing(nanoseconds: int) -> None:
    """What is written reads as the same, to the nanosecond."""
    seconds = nanoseconds / 1e9
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1000", 1000), ("1k", 1000), ("64Ki", 65536), ("16Mi", 16 << 20), ("3Ti", 3 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    """Decimal and binary suffixes as Kubernetes' quantities have them."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "Mi", "1.5Mi", "-1", "1mi", "1 Mi", "1MiB", "1K", "9" * 30])
def test_other_texts_than_sizes(text: str) -> None:
    """Only whole quantities; `1K` is not valid in Kubernetes either."""
    with pytest.raises(ValueError, match=r".*"):
        parse_size(text)


@given(st.integers(0, 1 << 50))
def test_sizes_survive_writing(size: int) -> None:
    """What is written reads as the same."""
    assert parse_size(format_binary_quantity(size)) == size
