"""How far a pull is, from the information of a runtime that is not trusted."""

import json
from typing import Any

import pytest

from edged.images.progress import progress_of

NAME = "example.org/app:1"


def test_sums_and_words() -> None:
    """The sums of all layers."""
    info = {
        "pulls": json.dumps({NAME: [["0123456789abcdef", 70_000_000, 500_000, 0], ["ff", 7_000_000, 7_000_000, 1]]})
    }
    progress = progress_of(NAME, info)
    assert progress is not None
    assert (progress.size, progress.fetched, progress.unpacked) == (77_000_000, 7_500_000, 1)
    assert str(progress) == "7.5 of 77.0 MB fetched, 0.0 MB unpacked"
    assert progress.layers[0].name == "0123456789ab"
    completed = progress.completed
    assert (completed.size, completed.fetched, completed.unpacked) == (77_000_000,) * 3


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (["\x1b[2Jabc", 1, 5, -3], ("2abc", 1, 1, 0)),
        (["Z" * 5000, -1, 1, 1], ("", 0, 0, 0)),
        (["a", 1 << 62, 1 << 61, 0], ("a", 1 << 50, 1 << 50, 0)),
    ],
    ids=["control characters", "negative", "huge"],
)
def test_numbers_and_names_are_bounded(layer: list[Any], expected: tuple[str, int, int, int]) -> None:
    """Nothing of it can move a terminal's cursor, or say more than the size."""
    progress = progress_of(NAME, {"pulls": json.dumps({NAME: [layer] * 600})})
    assert progress is not None
    assert len(progress.layers) == 500
    assert tuple(progress.layers[0]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "{}", '{"example.org/app:1": []}', '{"example.org/app:1": [["a", 1.5, 0, 0]]}',
        '{"example.org/app:1": [["a", 1, 0, 0]]}'.ljust(1 << 23),
    ],
    ids=["none", "no JSON", "no such pull", "no layer", "no number", "long"],
)  # fmt: skip
def test_what_says_nothing(text: str) -> None:
    """There is no progress then."""
    assert progress_of(NAME, {"pulls": text}) is None
