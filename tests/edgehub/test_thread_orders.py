"""What holds of the link in whatever order its threads run."""

import socket

import pytest

import beehive.wakeup
import edgehub.in_flight
import edgehub.transport
from beehive.runtime import Threads
from edgehub.in_flight import InFlight
from edgehub.transport import Transport
from edgehub.upgrade import Target
from tests.support.interleaving import SEEDS, Interleaving, explore

pytestmark = pytest.mark.parametrize("seed", SEEDS)


def test_an_answer_makes_room_without_a_time_out(seed: int) -> None:
    """A message that is larger than the room waits for the answers of those before it, and is woken by the last."""

    def scenario(threads: Interleaving) -> None:
        flight = InFlight(Threads(threads.clock), most=100)
        flight.enter("a", 60)
        flight.enter("b", 40)
        threads.run(lambda: flight.enter("c", 100), lambda: flight.leave("a"), lambda: flight.leave("b"))
        flight.leave("c")
        assert flight.bytes == 0

    explore(scenario, edgehub.in_flight, seed=seed)


def test_a_ring_is_never_missed(seed: int) -> None:
    def scenario(threads: Interleaving) -> None:
        transport = Transport(Target.parse("ws://127.0.0.1:1/"), threads.clock)
        sent, seen = list[int](), list[int]()
        transport._socket, peer = socket.socketpair()

        def send(item: int) -> None:
            sent.append(item)
            transport.wake()

        def serve() -> None:
            while len(seen) < 2:
                transport.wait(write=False, until=threads.seconds + 1000.0)
                seen.extend(sent[len(seen) :])

        threads.run(serve, lambda: send(1), lambda: send(2))
        transport.close()
        peer.close()

    explore(scenario, edgehub.transport, beehive.wakeup, single=200, seed=seed)
