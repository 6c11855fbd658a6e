"""Whole numbers in texts that anybody may write."""

import pytest

from beehive.whole_numbers import whole_number


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), ("1" * 19, int("1" * 19)), (str(2**63 - 1), 2**63 - 1)]
)
def test_numbers(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1_0", "٣", str(2**63), "9" * 5000, None, 7, ["1"]])
def test_no_whole_number(text: object) -> None:
    assert whole_number(text) is None
