"""Numbers at the ends of names are compared as numbers."""

import pytest

from beehive.files.numbered import next_number, number_of


@pytest.mark.parametrize(
    ("name", "number"),
    [("f.9", 9), ("f.10", 10), ("f.007", 7), ("a.b.3", 3), ("f\n.2", 2), (".1", 1), ("f", 0), ("f.", 0), ("f.bad-5", 0),
     ("f.1.trace", 0), ("f.-1", 0), ("f.٣", 0), ("f.1\n", 0), (f"f.{'9' * 5000}", 0), ("", 0)],
)  # fmt: skip
def test_the_number_of_a_name(name: str, number: int) -> None:
    assert number_of(name) == number


@pytest.mark.parametrize(("names", "number"), [((), 1), (("f", "f.bad-5"), 1), (("f.9", "g.10", "f"), 11)])
def test_the_next_number(names: tuple[str, ...], number: int) -> None:
    assert next_number(names) == number
