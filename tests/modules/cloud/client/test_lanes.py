"""The lanes of requests: priority, places, order of each object, the newest only, retries, bounds."""

import random

import pytest

from modules.cloud.client.calls import ApiCall
from modules.cloud.client.lane_calls import (
    Call,
    CallAnswered,
    CallFailed,
    CallSuperseded,
    LaneDepth,
    LaneFull,
    LaneLimits,
    RequestLane,
    SendCall,
)
from modules.cloud.client.lanes import MAX_ATTEMPTS, RequestLanes
from tests.modules.cloud.client.lane_traffic import LaneTraffic
from tests.support.presence import present

LEASE, NODE, POD, QUERY, EVENT = RequestLane
NARROW = {
    lane: LaneLimits(
        in_flight=flying, with_lower=lower, waiting=4, waiting_bytes=100, seconds=60, newest_only=lane in {LEASE, POD}
    )
    for lane, flying, lower in [(LEASE, 4, 4), (NODE, 3, 3), (POD, 2, 2), (QUERY, 1, 1), (EVENT, 1, 1)]
}
"""Each lane has one place that those below it cannot take."""


def _ended(traffic: LaneTraffic, number: int) -> type:
    return type(traffic.ends.get(number))


def test_upper_lanes_have_places_that_lower_ones_leave_free() -> None:
    """Events and queries take one place together, with pods two, with nodes three; leases have the fourth."""
    traffic = LaneTraffic(NARROW)
    numbers = [traffic.submit(lane, f"{n}") for lane in (EVENT, QUERY, POD, NODE, LEASE) for n in range(2)]
    assert traffic.sent == [numbers[0], numbers[4], numbers[6], numbers[8]]


def test_a_place_goes_to_the_first_lane_that_waits() -> None:
    """Whatever was submitted first; within a lane, what was submitted first."""
    traffic = LaneTraffic(NARROW)
    for lane in (EVENT, EVENT, POD, POD, POD, NODE, NODE, LEASE, LEASE, LEASE, LEASE):
        traffic.submit(lane)
    order = []
    while traffic.flying:
        order.append(traffic.flying[0])
        traffic.answer(traffic.flying[0])
    assert [traffic.calls[number].lane for number in traffic.sent] == [
        *(EVENT, POD, NODE, LEASE),
        *(LEASE, LEASE, LEASE, NODE, POD, POD, EVENT),
    ]
    assert {type(end) for end in traffic.ends.values()} == {CallAnswered}


@pytest.fixture
def traffic() -> LaneTraffic:
    return LaneTraffic()


def test_a_full_lane_of_events_delays_no_lease(traffic: LaneTraffic) -> None:
    """The lease is sent immediately, and an event without room is refused."""
    events = [traffic.submit(EVENT) for _ in range(5009)]
    assert [_ended(traffic, number) for number in events[-2:]] == [type(None), LaneFull]
    lease = traffic.submit(LEASE, "e1")
    assert traffic.sent[-1] == lease


def test_a_thousand_nodes_do_not_wait_for_a_slow_api_server() -> None:
    """Each renews its lease every ten seconds and reports as often; each answer takes 0.2 s: 40 in flight. With 16 at a
    time more and more waited.
    """
    traffic, ends_at = LaneTraffic(), dict[int, float]()
    for step in range(1000):
        for lane in (LEASE, POD):
            traffic.submit(lane, f"e{step}")
        for number in [each for each in traffic.flying if ends_at.setdefault(each, traffic.now + 0.2) <= traffic.now]:
            traffic.answer(number)
        traffic.pass_time(0.01)
        assert [traffic.lanes.waiting(lane) for lane in (LEASE, POD)] == [0, 0]


def test_bodies_that_wait_are_bounded() -> None:
    """By their bytes as well as by their number."""
    traffic = LaneTraffic(NARROW)
    numbers = [traffic.submit(QUERY, size=60) for _ in range(3)]
    assert [_ended(traffic, number) for number in numbers] == [type(None), type(None), LaneFull]
    traffic.answer(numbers[0])
    assert _ended(traffic, traffic.submit(QUERY, size=60)) is type(None)


def test_calls_with_one_key_go_one_after_the_other(traffic: LaneTraffic) -> None:
    """Others pass them; the key of another lane is another."""
    first, second, other = traffic.submit(QUERY, "a"), traffic.submit(QUERY, "a"), traffic.submit(QUERY, "b")
    node = traffic.submit(NODE, "a")
    assert traffic.sent == [first, other, node]
    traffic.answer(first, 404)
    assert traffic.sent == [first, other, node, second]
    assert _ended(traffic, first) is CallAnswered


def test_the_newest_status_replaces_the_waiting_one(traffic: LaneTraffic) -> None:
    """The one in flight ends first; the replaced one gets its error."""
    first, second, third = (traffic.submit(POD, "a") for _ in range(3))
    assert (traffic.sent, _ended(traffic, second)) == ([first], CallSuperseded)
    traffic.answer(first)
    assert traffic.sent == [first, third]
    traffic.answer(third)
    assert [_ended(traffic, number) for number in (first, third)] == [CallAnswered, CallAnswered]


def test_a_status_keeps_the_place_in_line_of_the_one_it_replaces() -> None:
    """An object that changes often is not put off for ever."""
    traffic = LaneTraffic(NARROW)
    one, two = traffic.submit(POD), traffic.submit(POD)
    traffic.submit(POD, "a")
    b = traffic.submit(POD, "b")
    a = traffic.submit(POD, "a")
    traffic.answer(one)
    traffic.answer(two)
    assert traffic.sent == [one, two, a, b]


def test_a_replacement_has_room_in_a_full_lane() -> None:
    """It adds none; a call for another object is refused."""
    traffic = LaneTraffic(NARROW)
    for _ in range(2):
        traffic.submit(POD)
    waiting = [traffic.submit(POD, key) for key in "abcd"]
    assert _ended(traffic, traffic.submit(POD, "e")) is LaneFull
    assert _ended(traffic, traffic.submit(POD, "a")) is type(None)
    assert _ended(traffic, waiting[0]) is CallSuperseded


def test_after_429_the_lane_waits() -> None:
    """For the server's time; other lanes go on, and the call is sent again, before the others of its lane."""
    traffic = LaneTraffic(NARROW)
    first = traffic.submit(QUERY, idempotent=False)
    traffic.submit(QUERY)
    traffic.answer(first, 429, retry_after=7)
    lease = traffic.submit(LEASE)
    assert traffic.sent == [first, lease]
    assert traffic.wake_at == 1007
    traffic.wake()
    assert traffic.sent == [first, lease, first]
    traffic.now += 60
    traffic.answer(first, 429)
    assert traffic.ends[first] == CallFailed(first, "the API server has too many requests", 429)


def test_a_429_without_a_time_pauses_for_a_second(traffic: LaneTraffic) -> None:
    """The newest status is sent then."""
    first, second = traffic.submit(POD, "a"), traffic.submit(POD, "a")
    traffic.answer(first, 429)
    assert (_ended(traffic, first), traffic.wake_at) == (CallSuperseded, 1001)
    traffic.wake()
    assert traffic.sent == [first, second]


def test_a_later_429_does_not_shorten_the_pause(traffic: LaneTraffic) -> None:
    """Calls that were in flight together are refused together, each with a time of its own."""
    first, second = traffic.submit(QUERY), traffic.submit(QUERY)
    traffic.answer(first, 429, retry_after=7)
    traffic.answer(second, 429, retry_after=2)
    traffic.pass_time(6)
    assert traffic.flying == []
    traffic.pass_time(1)
    assert sorted(traffic.flying) == [first, second]


def test_the_lanes_of_a_client_that_is_started_again_are_empty() -> None:
    """The counters outlive the client that had calls in flight; these would keep their places for ever."""
    depths = {lane: LaneDepth() for lane in RequestLane}
    call = Call(number=1, lane=QUERY, call=ApiCall(verb="get", api_version="v1", plural="pods"))
    for _ in range(3):
        lanes = RequestLanes(random.Random(0), NARROW, depths)  # noqa: S311 - reproducible on purpose
        assert SendCall(1, call.call) in lanes.submit(call, 0.0)
        assert (lanes.in_flight(QUERY), lanes.waiting(QUERY)) == (1, 0)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 0])
def test_an_idempotent_call_is_sent_again(traffic: LaneTraffic, status: int) -> None:
    """With growing delays, five times; then its caller hears the last reason."""
    number = traffic.submit(NODE, "a")
    later = traffic.submit(NODE, "a")
    for floor in (0.8, 1.6, 3.2, 6.4):
        traffic.answer(number, status) if status else traffic.error(number)
        assert not traffic.flying
        assert floor <= present(traffic.wake_at) - traffic.now < 2 * floor
        traffic.wake()
    assert traffic.sent == [number] * MAX_ATTEMPTS
    traffic.answer(number, status) if status else traffic.error(number)
    why = f"the API server answered {status}" if status else "the connection was closed"
    assert traffic.ends[number] == CallFailed(number, f"{why}, 5 times", status)
    assert traffic.flying == [later]


def test_a_retry_waits_as_long_as_the_server_asks(traffic: LaneTraffic) -> None:
    """503 with Retry-After delays the call alone."""
    number = traffic.submit(NODE)
    traffic.answer(number, 503, retry_after=20)
    assert traffic.wake_at == 1020
    other = traffic.submit(NODE)
    assert traffic.sent == [number, other]


def test_a_lane_wakes_for_the_first_of_what_it_waits_for(traffic: LaneTraffic) -> None:
    """Its pause is over before the retry of another call, which another lane has none of."""
    first, second = traffic.submit(NODE, "a"), traffic.submit(NODE, "b")
    traffic.answer(first, 503, retry_after=20)
    traffic.answer(second, 429, retry_after=2)
    traffic.wake()
    assert (traffic.now, traffic.sent) == (1002, [first, second, second])


def test_a_call_that_waits_fails_in_time_although_an_earlier_one_was_answered() -> None:
    traffic = LaneTraffic(NARROW)
    first, second, third = (traffic.submit(QUERY) for _ in range(3))
    traffic.answer(first)
    assert traffic.sent == [first, second]
    traffic.pass_time(NARROW[QUERY].seconds)
    assert _ended(traffic, third) is CallFailed


@pytest.mark.parametrize(("status", "idempotent"), [(500, False), (0, False), (501, True), (505, True)])
def test_what_cannot_be_repeated_fails_immediately(traffic: LaneTraffic, status: int, idempotent: bool) -> None:
    """A creation may have been carried out; some errors do not go away."""
    number = traffic.submit(NODE, idempotent=idempotent)
    traffic.answer(number, status) if status else traffic.error(number)
    assert isinstance(traffic.ends[number], CallFailed)
    assert traffic.sent == [number]


def test_a_newer_status_takes_the_place_of_a_retry_and_its_delay(traffic: LaneTraffic) -> None:
    """Whether it comes before the failure or after it."""
    first, second = traffic.submit(POD, "a"), traffic.submit(POD, "a")
    traffic.error(first)
    assert _ended(traffic, first) is CallSuperseded
    third = traffic.submit(POD, "a")
    assert (_ended(traffic, second), traffic.flying) == (CallSuperseded, [])
    traffic.wake()
    assert traffic.sent == [first, third]
    traffic.error(third)
    assert present(traffic.wake_at) - traffic.now >= 1.6


def test_a_call_that_waits_too_long_fails() -> None:
    """Also a call that waits for a retry, and one whose last attempt ends too late."""
    traffic = LaneTraffic(NARROW)
    flying, waiting = traffic.submit(QUERY), traffic.submit(QUERY)
    node = traffic.submit(NODE)
    traffic.now += 59.9
    traffic.error(node)
    traffic.pass_time(0.1)
    assert traffic.ends[waiting] == CallFailed(waiting, "it waited for 60 s")
    assert traffic.ends[node] == CallFailed(node, "it waited for 60 s")
    traffic.error(flying)
    assert traffic.ends[flying] == CallFailed(flying, "the connection was closed")
    assert (traffic.flying, traffic.lanes.waiting(QUERY)) == ([], 0)


def test_a_429_is_no_attempt(traffic: LaneTraffic) -> None:
    """The server has not carried it out: after many of them a call still has all its attempts."""
    number = traffic.submit(NODE)
    for status in [429] * 10 + [503] * (MAX_ATTEMPTS - 1):
        traffic.answer(number, status)
        traffic.wake()
    assert traffic.flying == [number]
    traffic.answer(number, 503)
    assert _ended(traffic, number) is CallFailed


def test_an_answer_ends_the_growth_of_an_objects_delays(traffic: LaneTraffic) -> None:
    """The next call with its key, which has waited meanwhile, begins with the shortest one."""
    first, second = traffic.submit(NODE, "a"), traffic.submit(NODE, "a")
    for _ in range(3):
        traffic.error(first)
        traffic.wake()
    traffic.answer(first)
    traffic.error(second)
    assert present(traffic.wake_at) - traffic.now < 1.6


def test_the_time_of_a_retry_that_was_given_up_sends_no_second_call_of_its_key() -> None:
    traffic = LaneTraffic(NARROW)
    given_up = traffic.submit(NODE, "a")
    traffic.now += 59.9
    traffic.error(given_up)
    traffic.pass_time(0.1)
    assert _ended(traffic, given_up) is CallFailed
    first, second = traffic.submit(NODE, "a"), traffic.submit(NODE, "a")
    traffic.pass_time(5.0)
    assert traffic.flying == [first]
    traffic.answer(first)
    assert traffic.flying == [second]
