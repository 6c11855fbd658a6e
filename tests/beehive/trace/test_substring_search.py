"""Many byte strings are found in a text wherever they stand, and at a cost that the text bounds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.trace.substring_search import SHORTEST, STEPS, SubstringMatch, SubstringSearch, TooMuchWorkError

_BYTES = st.binary(min_size=SHORTEST, max_size=40) | st.text("ab", min_size=SHORTEST, max_size=40).map(str.encode)
_LONG = st.tuples(st.sampled_from([b"a" * 190, b"-----BEGIN CERTIFICATE-----" * 9]), _BYTES).map(b"".join)


def _of(*wanted: bytes) -> SubstringSearch:
    needles = SubstringSearch()
    for one in wanted:
        needles.add(one, one)
    return needles


def _naively(wanted: list[bytes], text: bytes) -> set[int]:
    """The places of the text that belong to one of them."""
    covered: set[int] = set()
    for one in wanted:
        at = text.find(one)
        while at >= 0:
            covered.update(range(at, at + len(one)))
            at = text.find(one, at + 1)
    return covered


@given(st.lists(_BYTES | _LONG, max_size=12), st.data())
def test_a_needle_is_found_at_any_place_of_a_text(wanted: list[bytes], data: st.DataObject) -> None:
    """The search finds the same places as a comparison with each needle, at any offset, overlapping or not."""
    pieces = st.sampled_from(wanted) if wanted else st.just(b"")
    filler = st.binary(max_size=9) | st.text("ab", max_size=30).map(str.encode)
    text = b"".join(data.draw(st.lists(pieces | filler, max_size=8)))
    found = _of(*wanted).find(text)
    assert {place for one in found for place in range(one.begin, one.end)} == _naively(wanted, text)
    assert all(one.of in wanted and one.of in text[one.begin : one.end] for one in found)
    assert all(one.end <= other.begin for one, other in pairwise(found))


@pytest.mark.parametrize("size", [SHORTEST, 7, 14, 15, 24, *(step + more for step in STEPS for more in (0, 1)), 5000])
def test_every_length_at_every_place(size: int) -> None:
    wanted = bytes((number * 37 + 11) % 251 for number in range(size))
    needles = _of(wanted)
    for before in range(20):
        assert needles.find(b"x" * before + wanted + b"y") == [SubstringMatch(before, before + size, wanted)]
        assert needles.find(b"x" * before + wanted[:-1]) == []
    both = [SubstringMatch(0, size, wanted), SubstringMatch(size, 2 * size, wanted)]
    assert needles.find(2 * wanted) == both, "neighbours do not overlap"


def test_the_longest_that_begins_at_a_place_is_taken() -> None:
    """And what overlaps another is one place, of the longer."""
    needles = _of(b"secret", b"secret-of-mine", b"mine-and-yours-and-theirs")
    assert needles.find(b"a secret-of-mine.") == [SubstringMatch(2, 16, b"secret-of-mine")]
    text = b"secret-of-mine-and-yours-and-theirs"
    assert needles.find(text) == [SubstringMatch(0, len(text), b"mine-and-yours-and-theirs")]


def test_ten_thousand_with_one_beginning_are_distinguished() -> None:
    """As tokens are, which begin with the same header."""
    header = b"eyJhbGciOiJSUzI1NiIsImtpZCI6ImFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6In0." * 4
    tokens = [header + b"%06d" % number for number in range(10_000)]
    needles = _of(*tokens)
    text = b", ".join(tokens[::1000])
    assert [one.of for one in needles.find(text)] == tokens[::1000]
    assert needles.find(header + b"nobody") == []


def test_a_search_that_costs_too_much_is_given_up() -> None:
    """What is looked for begins all alike, at each place of the text, and ends otherwise: then it may be there."""
    needles = _of(*(b"a" * size + b"b" for size in range(300, 3000, 10)))
    text = b"a" * 100_000
    with pytest.raises(TooMuchWorkError):
        needles.find(text)
    assert needles.any_in(text)
