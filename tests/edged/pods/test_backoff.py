"""A container that keeps ending waits longer and longer, and is forgiven after a good run."""

from hypothesis import given
from hypothesis import strategies as st

from edged.pods.backoff import (
    CRASH_LOOP,
    BackOffEntry,
    BackOffKey,
    BackOffPolicy,
    BackOffs,
    advance,
    image_key,
    ready_at,
)
from edged.pods.model import PodUid
from modules.apimachinery.types import Nanoseconds, seconds
from tests.edged.pods.builders import at

KEY = BackOffKey(PodUid("u"), "c", "h")


def test_delays_double_up_to_five_minutes() -> None:
    """A container that ends immediately: restarts after 0, 10, 20, 40, 80, 160, 300, 300 s."""
    backoffs, now, waits = BackOffs(), at(0), []
    for _ in range(8):
        due = backoffs.ready_at(KEY, now)
        waits.append((due - now) // seconds(1))
        backoffs.advance(KEY, now, due)
        now = due
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_bound_below_ten_seconds_is_the_first_delay_too() -> None:
    """crashLoopBackOff.maxContainerRestartPeriod is never exceeded, and larger bounds do not change the first delay."""
    assert BackOffPolicy.up_to(seconds(2)) == BackOffPolicy(seconds(2), seconds(2))
    assert BackOffPolicy.up_to(seconds(300)) == CRASH_LOOP


def test_ten_good_minutes_are_forgiveness() -> None:
    """A container that ran longer than twice the longest delay since its start starts over; at exactly that,
    not.
    """
    entry = BackOffEntry(seconds(300), at(0))
    assert ready_at(entry, at(600)) == at(900)
    assert ready_at(entry, at(600.001)) == at(600.001)
    assert advance(entry, at(601), at(601)) == BackOffEntry(seconds(10), at(601))


def test_records_of_one_pod_go_together() -> None:
    """Forgetting a pod leaves the records of others."""
    backoffs = BackOffs()
    for key in (KEY, image_key(PodUid("u"), "busybox"), image_key(PodUid("v"), "busybox")):
        backoffs.advance(key, at(0), at(0))
    backoffs.forget_pod(PodUid("u"))
    assert len(backoffs) == 1
    assert backoffs.delay(image_key(PodUid("v"), "busybox")) == seconds(10)
    backoffs.reset(image_key(PodUid("v"), "busybox"))
    assert len(backoffs) == 0


@given(st.lists(st.integers(min_value=0, max_value=10**13), max_size=30))
def test_delay_stays_between_first_and_longest(lives: list[int]) -> None:
    """Whatever the lengths of the container's lives, a delay is 10 s to 300 s and a try never lies in the
    past.
    """
    entry, now = None, at(0)
    for life in lives:
        ended = Nanoseconds(now + life)
        due = ready_at(entry, ended)
        assert due >= ended
        entry = advance(entry, ended, due)
        assert CRASH_LOOP.first <= entry.delay <= CRASH_LOOP.longest
        now = due
