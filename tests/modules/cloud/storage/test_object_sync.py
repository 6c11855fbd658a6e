"""Which of two connections of a node began first."""

import pytest

from modules.cloud.storage.object_sync import is_earlier


@pytest.mark.parametrize(
    ("one", "other", "is_first"),
    [
        (1.25, 1.5, True),
        (1.5, 1.25, False),
        (1.25, 1.25, False),
        (1.0, 1.5, False),
        (1.25, 1.0, False),
        (1.0, 2.0, True),
        (1.75, 2.0, True),
        (2.0, 1.75, False),
    ],
)
def test_of_two_connections_in_a_second_none_is_earlier_unless_both_times_are_fine(
    one: float, other: float, *, is_first: bool
) -> None:
    assert is_earlier(one, other) is is_first
