"""What excuses silence: only the way of the question, and only while it is being taken."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import RealClock
from edgehub.ping_deadline import Flow, PingDeadline
from edgehub.transport import Transport
from edgehub.upgrade import Target
from tests.edgehub.clouds import ScriptedCloud
from tests.end_to_end.processes import wait_until


@pytest.mark.parametrize(
    ("looks", "excused"),
    [
        ([(0, Flow(0, 10)), (10, Flow(10, 0, 9.5))], 0.5),
        ([(0, Flow(0, 900)), (9, Flow(400, 500, 1))], 8),
        ([(0, Flow(0, 900)), (9, Flow(400, 500, 1)), (19, Flow(900, 0, 5))], 14),
        ([(0, Flow(0, 900)), (9, Flow(400, 500, 1)), (19, Flow(400, 500, 11))], 8),
        ([(0, Flow(0, 900)), (10, Flow(0, 900, 10))], 0),
        ([(0, Flow(0, 10)), (1, Flow(10, 0, 0.5)), (2, Flow(10, 99, 1.5)), (9, Flow(109, 0, 0))], 0.5),
        ([(0, Flow(7, 0)), (9, Flow(7, 0, 9))], 0),
        ([(0, Flow()), (9, Flow())], 0),
    ],
    ids=[
        "taken at once",
        "being taken",
        "taken late",
        "the network stands still",
        "nothing is taken",
        "what came later is taken",
        "nothing to take",
        "the kernel says nothing",
    ],
)
def test_the_way_of_the_ping_is_excused(looks: Sequence[tuple[float, Flow]], excused: float) -> None:
    """The peer's own time is not."""
    deadline = PingDeadline()
    for now, flow in looks:
        deadline.update(now, 1, flow, written=True)
    assert deadline.extension == excused


def test_as_long_as_the_kernel_has_not_got_the_ping_all_that_is_taken_counts() -> None:
    """What it has is before the ping."""
    deadline = PingDeadline()
    for now in range(10):
        deadline.update(now, 1, Flow(100 * now, 0), written=False)
    assert deadline.extension == 9


def test_a_ping_that_is_written_late_is_waited_for_from_then_on() -> None:
    """Other bytes were before it, and this process stood still: the peer has not been asked yet."""
    deadline = PingDeadline()
    deadline.update(0, 1, Flow(0, 900), written=False)
    deadline.update(600, 1, Flow(900, 10, 599), written=True)
    assert deadline.extension == 600
    deadline.update(700, 1, Flow(900, 10, 699), written=True)
    assert deadline.extension == 600


def test_each_ping_restarts_it() -> None:
    """And without one there is nothing to excuse."""
    deadline = PingDeadline()
    deadline.update(0, 1, Flow(0, 900), written=True)
    deadline.update(5, 1, Flow(900, 0), written=True)
    for now, ping in ((6, 2), (7, None), (8, 2)):
        deadline.update(now, ping, Flow(900, 0), written=True)
        assert deadline.extension == 0


@given(steps=st.lists(st.tuples(st.floats(0, 20), st.integers(0, 500), st.integers(0, 500), st.floats(0, 30))))
def test_never_more_is_excused_than_has_passed(steps: list[tuple[float, int, int, float]]) -> None:
    """Nor is anything taken back."""
    deadline, now, taken, before = PingDeadline(), 0.0, 0, 0.0
    for passed, more, queued, age in [(0.0, 0, 0, 0.0), *steps]:
        now, taken = now + passed, taken + more
        deadline.update(now, 1, Flow(taken, queued, age), written=True)
        assert before <= deadline.extension <= now
        before = deadline.extension


def test_the_kernel_knows_the_bytes_that_the_peer_has_taken() -> None:
    with ScriptedCloud() as cloud:
        clock = RealClock()
        transport = Transport(Target(secure=False, host="127.0.0.1", port=cloud.port, path="/"), clock)
        transport.connect(clock.monotonic() + 60)
        before = transport.flow()
        assert transport.send(memoryview(b"x" * 1000)) == 1000
        wait_until(lambda: transport.flow()[:2] == (before.acknowledged + 1000, 0), "all is taken")
        assert 0 <= transport.flow().age < 60
        transport.close()
        assert transport.flow() == Flow()
