"""Lanes with random calls, answers and faults keep what they promise."""

import random

import pytest

from modules.cloud.client.lane_calls import CallAnswered, CallFailed, CallSuperseded, LaneLimits, RequestLane
from modules.cloud.client.lanes import MAX_ATTEMPTS
from tests.modules.cloud.client.lane_traffic import LaneTraffic

SEEDS = 200
STATUSES = [200, 200, 200, 404, 409, 429, 429, 500, 503, 0, 0]


def _limits(draw: random.Random) -> dict[RequestLane, LaneLimits]:
    """Small random limits, each lane with at least one place that those below it cannot take."""
    found = {}
    for free, lane in enumerate(reversed(RequestLane), 1):
        found[lane] = LaneLimits(
            in_flight=draw.randint(1, 4),
            with_lower=free + draw.randint(0, 1) * (lane is RequestLane.LEASE),
            waiting=draw.randint(1, 8),
            waiting_bytes=draw.randint(20, 200),
            seconds=draw.randint(5, 60),
            newest_only=lane in {RequestLane.LEASE, RequestLane.POD_STATUS},
        )
    return found


def _traffic(seed: int) -> LaneTraffic:
    """Lanes after random calls, all ended."""
    draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
    traffic = LaneTraffic(_limits(draw), seed)
    for _ in range(250):
        kind = draw.random()
        if kind < 0.5:
            key = draw.choice(["", "a", "b", "c"])
            lane = draw.choice(list(RequestLane))
            traffic.submit(lane, key, idempotent=draw.random() < 0.7, size=draw.randint(0, 20))
        elif kind < 0.85 and traffic.flying:
            _finish(traffic, draw, draw.choice(STATUSES))
        traffic.pass_time(draw.choice([0, 0, 0.1, 1, 3]))
    while traffic.flying or any(traffic.lanes.waiting(lane) for lane in RequestLane):
        if traffic.flying:
            _finish(traffic, draw, 200)
        else:
            traffic.wake()
    return traffic


def _finish(traffic: LaneTraffic, draw: random.Random, status: int) -> None:
    number = draw.choice(traffic.flying)
    if status:
        traffic.answer(number, status, 4.0 if draw.random() < 0.3 else 0.0)
    else:
        traffic.error(number)


@pytest.mark.parametrize("first", range(0, SEEDS, 40))
def test_promises_are_kept(first: int) -> None:
    """Bounds and places hold after each input (`LaneTraffic` checks them); here, what holds over all of it.

    Each call ends once. Calls with one key are sent in their order, one after the other. The
    newest status of an object is not replaced. Nothing is left behind.
    """
    for seed in range(first, first + 40):
        traffic = _traffic(seed)
        assert set(traffic.ends) == set(traffic.calls)
        newest = {(call.lane, call.key): number for number, call in traffic.calls.items() if call.key}
        for (lane, key), numbers in traffic.first_sent().items():
            assert not key or numbers == sorted(numbers), (seed, lane, key)
        assert not [one for one in newest.values() if isinstance(traffic.ends.get(one), CallSuperseded)]
        for number, failures in traffic.failures.items():
            assert failures <= (MAX_ATTEMPTS if traffic.calls[number].idempotent else 1)
        assert traffic.lanes._calls == {}
        assert all(not queue._keys and not queue._bytes for queue in traffic.lanes._queues.values())


def test_the_simulation_meets_its_cases() -> None:
    """Calls that were answered, failed, superseded, refused, and retried."""
    found, retried = set(), 0
    for seed in range(20):
        traffic = _traffic(seed)
        found |= {type(end).__name__ for end in traffic.ends.values()}
        retried += len(traffic.sent) - len(set(traffic.sent))
    assert found == {CallAnswered.__name__, CallFailed.__name__, CallSuperseded.__name__, "LaneFull"}
    assert retried > 50


def test_an_upper_lane_is_never_behind_a_lower_one() -> None:
    """For any number of other calls, as long as leases leave a place, the next one is sent immediately."""
    for seed in range(50):
        draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
        traffic = LaneTraffic(seed=seed)
        for _ in range(draw.randint(0, 300)):
            traffic.submit(draw.choice(list(RequestLane)[1:]), draw.choice(["", "a", "b"]))
        assert traffic.lanes.in_flight(RequestLane.LEASE) == 0
        for node in range(2):
            assert traffic.submit(RequestLane.LEASE, f"e{node}") == traffic.sent[-1]
