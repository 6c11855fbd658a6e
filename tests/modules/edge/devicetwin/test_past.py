"""The history of a property is bounded by number, age and size."""

import pytest

from modules.edge.devicetwin import past, twins
from modules.edge.devicetwin.past import MAX_AGE, MAX_SIZE, MOST, PastValue, entries, extended, last_time
from modules.edge.devicetwin.requests import TwinRequest
from modules.edge.devicetwin.twins import At


def _filled(values: list[str], step: int = 1) -> str:
    told = ""
    for number, value in enumerate(values):
        told = extended(told, value, number * step)
    return told


def test_the_history_is_bounded_by_number() -> None:
    told = _filled([str(number) for number in range(100)])
    assert [one.value for one in entries(told, 100)] == [str(number) for number in range(100 - MOST, 100)]


def test_the_history_is_bounded_by_size() -> None:
    """The newest values stay; a value that is larger than the whole history does not displace the others."""
    told = _filled(["x" * 500] * 10)
    assert len(entries(told, 10)) == 4
    assert all(len(_filled(["x" * length] * 5)) <= MAX_SIZE for length in range(500, 520))
    for size in (MAX_SIZE, 60_000):
        assert extended(told, "y" * size, 11) == told


@pytest.mark.parametrize("more", [0, 1])
def test_a_value_may_fill_the_history(more: int) -> None:
    """One that is larger is left out."""
    value = "x" * (MAX_SIZE - len('1 ""\n') + more)
    assert [one.value for one in entries(extended(_filled(["a"]), value, 1), 1)] == (["a"] if more else [value])


@pytest.mark.parametrize("by", ["", "cloud"])
def test_the_history_is_bounded_by_age(by: str) -> None:
    """An old value is dropped with the next new one, and is not returned until then either."""
    told = extended(extended("", "old", 0, by), "new", MAX_AGE + 1, by)
    assert [one.value for one in entries(told, MAX_AGE + 1)] == ["new"]
    assert entries(told, 2 * MAX_AGE + 1) == [PastValue(MAX_AGE + 1, "new", by)]
    assert entries(told, 2 * MAX_AGE + 2) == []
    assert "old" not in told


@pytest.mark.parametrize("damaged", ['1x "1"\n', '2 "1\n', "\n", "3\n"])
def test_a_damaged_line_is_left_out(damaged: str) -> None:
    """It ended devicetwin with each report of the device."""
    now = MAX_AGE + 1
    assert entries(extended(damaged, "new", now), now) == [PastValue(now, "new")]
    assert last_time(damaged) <= now


def test_a_clock_that_was_set_back_bounds_it_all_the_same() -> None:
    told = _filled([str(number) for number in range(100)], step=-1000)
    assert len(entries(told, -100_000)) == MOST


def test_expected_values_have_a_past_of_their_own_with_who_set_them() -> None:
    """A device that reports often does not push the desired values out."""
    twin = twins.desire(None, "30", None, At(1, 1))
    twin = twins.update(twin, TwinRequest(expected="31"), None, At(2, 2, by="devices set"))
    for number in range(3, 60):
        twin = twins.update(twin, TwinRequest(actual=str(number)), None, At(number, number))
    assert twin is not None
    assert entries(twin.past_expected, 60) == [PastValue(1, "30", "cloud"), PastValue(2, "31", "devices set")]
    assert len(entries(twin.past, 60)) == past.MOST
