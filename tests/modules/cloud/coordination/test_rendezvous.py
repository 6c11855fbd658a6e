"""Rendezvous hashing: every cloudcore finds the same owner, and few keys move."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores, owner_of

IDENTITIES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6, unique=True)


def test_nobody_owns_anything_when_nobody_is_alive() -> None:
    assert owner_of("node/n1", ()) == ""


@given(st.text(max_size=12), IDENTITIES, st.randoms(use_true_random=False))
def test_the_order_in_which_cloudcores_are_known_does_not_matter(
    key: str, identities: list[str], source: random.Random
) -> None:
    """So cloudcores with the same knowledge agree without a word."""
    mixed = list(identities)
    source.shuffle(mixed)
    assert owner_of(key, mixed) == owner_of(key, identities)


@given(st.text(max_size=12), IDENTITIES)
def test_a_key_changes_its_owner_only_when_the_owner_goes(key: str, identities: list[str]) -> None:
    owner = owner_of(key, identities)
    for gone in identities:
        left = [each for each in identities if each != gone]
        assert gone == owner or owner_of(key, left) == owner


@given(st.text(max_size=12), IDENTITIES, st.text(min_size=1, max_size=8))
def test_who_comes_takes_keys_from_others_and_moves_none_among_them(key: str, identities: list[str], new: str) -> None:
    assert owner_of(key, [*identities, new]) in (new, owner_of(key, identities))


def test_a_cloudcore_whose_duties_are_not_known_yet_may_have_each() -> None:
    """It is known as alive a moment before: until then no other may take what it does."""
    names = [f"c{number}" for number in range(8)]
    for duty in Duty:
        owner = owner_of(duty, names)
        for name in names:
            known = KnownCloudcores(name)
            known.alive = tuple(names)
            assert known.owns(duty) == (name == owner)


def test_duties_are_divided_evenly() -> None:
    """Of three thousand nodes, each of three cloudcores has about a thousand."""
    found = Counter(owner_of(f"node/n{number}", ("a", "b", "c")) for number in range(3000))
    assert set(found) == {"a", "b", "c"}
    assert all(850 < count < 1150 for count in found.values()), found


def test_the_owner_is_the_same_in_every_release() -> None:
    """Two releases run side by side while one replaces the other."""
    assert [owner_of(f"node/n{number}", ("a", "b", "c")) for number in range(6)] == [
        "b", "b", "c", "b", "c", "c",
    ]  # fmt: skip
