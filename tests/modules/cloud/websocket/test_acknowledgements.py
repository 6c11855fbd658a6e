"""Acknowledgements of nodes, which need nobody's attention at once, on their way to cloudhub."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.codec import encode
from beehive.message import Message
from beehive.names import Operation
from beehive.simulation import Simulation
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings

_SETTINGS = WebsocketSettings(
    address="127.0.0.1", port=0, node_limit=1, max_frame_bytes=1 << 20, write_timeout=60.0
)  # fmt: skip


class Receiving:
    """A server of which nothing runs, and a connection."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.came: list[str] = []
        self.server = WebsocketServer(_SETTINGS, self._note, self.simulation.clock)
        self.link = cast("Any", SimpleNamespace(is_closed=False))

    def _note(self, event: LinkEvent) -> None:
        self.came.append(event.message.route.operation if isinstance(event, FrameReceived) else "closed")

    def comes(self, *operations: str) -> None:
        """The node sends messages."""
        connection = cast("WebsocketConnection", SimpleNamespace(node="n1", link=self.link))
        for each in operations:
            message = Message.new(self.simulation.clock, source="edged", resource="default/pod/web", operation=each)
            self.server._deliver_frame(connection, encode(message))

    def take(self) -> list[str]:
        """What cloudhub has got since the last call."""
        came, self.came = self.came, []
        return came


@pytest.fixture
def receiving() -> Iterator[Receiving]:
    made = Receiving()
    yield made
    made.server.stop()


def test_an_acknowledgement_comes_with_the_next_message_and_before_it(receiving: Receiving) -> None:
    receiving.comes(Operation.RESPONSE)
    assert receiving.take() == []
    receiving.comes(Operation.UPDATE)
    assert receiving.take() == [Operation.RESPONSE, Operation.UPDATE]
    receiving.comes(Operation.RESPONSE)
    receiving.server._deliver(LinkClosed("n1", receiving.link))
    assert receiving.take() == [Operation.RESPONSE, "closed"]


def test_it_comes_after_a_moment_if_there_is_none(receiving: Receiving) -> None:
    """However many polls there are meanwhile."""
    receiving.comes(Operation.RESPONSE)
    receiving.simulation.run_for(0.03)
    receiving.comes(Operation.RESPONSE)
    assert receiving.server._begin_wait() == 0.05
    assert receiving.take() == []
    receiving.simulation.run_for(0.02)
    assert receiving.server._begin_wait() == 0.5
    assert receiving.take() == [Operation.RESPONSE] * 2


def test_many_do_not_wait(receiving: Receiving) -> None:
    """The next messages for the node may wait for them."""
    receiving.comes(*[Operation.RESPONSE] * 4)
    assert receiving.take() == [Operation.RESPONSE] * 4


def test_none_is_lost_at_the_end(receiving: Receiving) -> None:
    receiving.comes(Operation.RESPONSE)
    receiving.server.stop()
    assert receiving.take() == [Operation.RESPONSE]
