"""The token bucket, and the law that it never lets more through than burst + rate times time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.rate import TokenBucket


def test_a_full_bucket_lets_the_burst_through_and_then_one_every_period() -> None:
    """KubeEdge's 30 and 60: sixty immediately, then one every 1/30 s."""
    bucket = TokenBucket(30, 60)
    assert [bucket.reserve(5.0) for _ in range(60)] == [0.0] * 60
    wait = bucket.reserve(5.0)
    assert wait == pytest.approx(1 / 30)
    assert bucket.reserve(5.0 + wait) == 0.0
    assert bucket.reserve(5.0 + wait) == pytest.approx(1 / 30)


def test_a_bucket_fills_up_to_the_burst_and_no_further() -> None:
    """An hour of quiet is worth one burst."""
    bucket = TokenBucket(30, 3)
    for _ in range(3):
        bucket.reserve(0.0)
    assert [bucket.reserve(3600.0) == 0.0 for _ in range(4)] == [True, True, True, False]


def test_a_bucket_is_full_until_something_is_taken_and_when_that_has_come_again() -> None:
    bucket = TokenBucket(0.5, 3)
    assert bucket.is_full(0.0)
    bucket.reserve(10.0)
    assert [bucket.is_full(at) for at in (9.0, 10.0, 11.9, 12.0)] == [False, False, False, True]
    bucket.reserve(11.0)
    assert [bucket.is_full(at) for at in (13.9, 14.0)] == [False, True]


def test_the_top_of_a_full_bucket_leaves_the_rest() -> None:
    """A caller that takes only the top of the bucket waits until the bucket is full again."""
    bucket = TokenBucket(10, 5)
    assert [bucket.reserve(0.0, only_top=2) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.2)]
    assert [bucket.reserve(0.0) == 0.0 for _ in range(4)] == [True, True, True, False]
    assert bucket.reserve(0.3, only_top=2) == pytest.approx(0.2)
    assert [bucket.reserve(0.5, only_top=2) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.2)]
    assert [TokenBucket(10, 1).reserve(0.0, only_top=2), TokenBucket(0, 0).reserve(0.0, only_top=2)] == [0.0, 0.0]


def test_rate_zero_never_holds_back() -> None:
    """0 means no limit."""
    bucket = TokenBucket(0, 0)
    assert all(bucket.reserve(1.0) == 0.0 for _ in range(1000))


def test_burst_zero_still_lets_one_through_at_a_time() -> None:
    """A burst below one would stop the node's mouth for ever."""
    bucket = TokenBucket(10, 0)
    assert bucket.reserve(0.0) == 0.0
    assert bucket.reserve(0.0) == pytest.approx(0.1)


def test_a_clock_that_stands_still_or_goes_back_gives_no_tokens() -> None:
    """Only time that has passed counts."""
    bucket = TokenBucket(10, 1)
    assert bucket.reserve(7.0) == 0.0
    assert bucket.reserve(6.0) > 0.0


@given(rate=st.floats(0.5, 100), burst=st.integers(1, 50), steps=st.lists(st.floats(0, 2), min_size=1, max_size=200))
def test_no_more_leaves_than_burst_and_rate_allow(rate: float, burst: int, steps: list[float]) -> None:
    """In any time, at most burst + rate * time."""
    bucket, now, taken = TokenBucket(rate, burst), 0.0, 0
    for step in steps:
        now += step
        while bucket.reserve(now) == 0.0:
            taken += 1
        assert taken <= burst + rate * now + 1e-3


@given(rate=st.floats(0.5, 100), burst=st.integers(1, 10), taken=st.integers(1, 30))
def test_after_the_announced_wait_there_is_a_token(rate: float, burst: int, taken: int) -> None:
    """After the announced wait there is always a token."""
    bucket, now = TokenBucket(rate, burst), 100.0
    for _ in range(taken):
        wait = bucket.reserve(now)
        if wait:
            now += wait
            assert bucket.reserve(now) == 0.0
