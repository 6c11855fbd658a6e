"""How many tests a process gets at once."""

import pytest

from tests.support.scheduling import MOST_AT_ONCE, at_once


@pytest.mark.parametrize(
    ("left", "processes", "count"),
    [(14_000, 3, MOST_AT_ONCE), (240, 3, 10), (47, 3, 1), (1, 3, 1), (10, 0, 1)],
)
def test_a_process_gets_fewer_the_fewer_are_left(left: int, processes: int, count: int) -> None:
    assert at_once(left, processes) == count
