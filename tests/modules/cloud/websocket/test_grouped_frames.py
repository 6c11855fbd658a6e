"""Acknowledgements and reports of nodes, which need nobody's attention at once, on their way to cloudhub."""

from collections.abc import Iterator
from selectors import EVENT_READ
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.codec import encode
from beehive.message import Message
from beehive.names import Operation
from beehive.simulation import Simulation
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.grouped_frames import LARGEST, MOST, RENEWAL_SECONDS, REPORT_SECONDS
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from tests.support.patience import PATIENCE

_SETTINGS = WebsocketSettings(
    address="127.0.0.1", port=0, node_limit=1, max_frame_bytes=1 << 20, write_timeout=PATIENCE
)  # fmt: skip
STATUS = "patch", "default/podpatch/web"
RENEWAL = "update", "kube-node-lease/lease/n1"
EVENT = "insert", "default/event/web.1"


class Receiving:
    """A server of which nothing runs, and connections."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.came: list[str] = []
        self.server = WebsocketServer(_SETTINGS, self._note, self.simulation.clock)
        self.server._selector.register(self.server._woken, EVENT_READ)
        self.link = cast("Any", SimpleNamespace(is_closed=False))

    def _note(self, event: LinkEvent) -> None:
        self.came.append(event.message.route.operation if isinstance(event, FrameReceived) else "closed")

    def comes(self, *operations: str, resource: str = "default/pod/web", node: str = "n1", content: str = "") -> None:
        """A node sends messages."""
        connection = cast("WebsocketConnection", SimpleNamespace(node=node, link=self.link))
        for each in operations:
            message = Message.new(
                self.simulation.clock, source="edged", resource=resource, operation=each, content=content
            )
            self.server._deliver_frame(connection, encode(message))

    def reports(self, node: str, report: tuple[str, str] = STATUS) -> list[str]:
        """A node sends a report; the server polls. Return what cloudhub has got."""
        operation, resource = report
        self.comes(operation, resource=resource, node=node)
        return self.later(0.0)

    def later(self, seconds: float) -> list[str]:
        """Return what cloudhub has got after seconds and another poll."""
        self.simulation.run_for(seconds)
        self.server._wake()  # so that the poll waits for nothing
        self.server._poll()
        return self.take()

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
    receiving.server._grouped.deliver(LinkClosed("n1", receiving.link))
    assert receiving.take() == [Operation.RESPONSE, "closed"]


def test_it_comes_after_a_moment_if_there_is_none(receiving: Receiving) -> None:
    """However many polls there are meanwhile."""
    receiving.comes(Operation.RESPONSE)
    receiving.simulation.run_for(0.03)
    receiving.comes(Operation.RESPONSE)
    assert receiving.server._begin_wait() == pytest.approx(0.02)
    assert receiving.take() == []
    assert receiving.later(0.02) == [Operation.RESPONSE] * 2
    assert receiving.server._begin_wait() == 0.5


def test_many_do_not_wait(receiving: Receiving) -> None:
    """The next messages for the node may wait for them."""
    receiving.comes(*[Operation.RESPONSE] * MOST)
    assert receiving.take() == [Operation.RESPONSE] * MOST


def test_none_is_lost_at_the_end(receiving: Receiving) -> None:
    receiving.comes(Operation.RESPONSE)
    receiving.server.stop()
    assert receiving.take() == [Operation.RESPONSE]


def test_a_keepalive_overtakes_what_waits(receiving: Receiving) -> None:
    """A thousand idle nodes send many: each would end the wait of the others' renewals."""
    receiving.comes(Operation.RESPONSE)
    receiving.comes(Operation.KEEPALIVE)
    assert receiving.take() == [Operation.KEEPALIVE]
    assert receiving.later(0.05) == [Operation.RESPONSE]


@pytest.mark.parametrize(("report", "seconds"), [(STATUS, REPORT_SECONDS), (EVENT, REPORT_SECONDS), (RENEWAL, 0.1)])
def test_reports_of_many_nodes_at_about_the_same_time_go_on_together(
    receiving: Receiving, report: tuple[str, str], seconds: float
) -> None:
    operation, _ = report
    assert receiving.reports("n1", report) == [operation], "the first one does not wait"
    receiving.simulation.run_for(seconds * 0.5)
    assert receiving.reports("n2", report) == []
    assert receiving.later(seconds * 0.9) == []
    assert receiving.reports("n3", report) == [], "nor does a further one change when it is over"
    assert receiving.later(seconds * 0.2) == [operation] * 2
    assert receiving.later(seconds) == []
    assert receiving.reports("n4", report) == [operation], "as at first, when nobody has reported for so long"


def test_the_reports_of_a_poll_go_on_with_the_first(receiving: Receiving) -> None:
    operation, resource = STATUS
    for node in ("n1", "n2", "n3"):
        receiving.comes(operation, resource=resource, node=node)
    assert receiving.later(0.0) == [operation] * 3


def test_the_reports_of_one_node_do_not_wait(receiving: Receiving) -> None:
    """Its pods start one after the other, and users wait for them."""
    assert [receiving.reports("n1") for _ in range(3)] == [["patch"]] * 3
    assert receiving.reports("n2") == []
    assert receiving.reports("n2") == ["patch"] * 2


def test_a_full_group_does_not_wait(receiving: Receiving) -> None:
    receiving.reports("n0")
    for _ in range(2):
        assert [len(receiving.reports(f"n{number}")) for number in range(1, MOST + 1)] == [0] * (MOST - 1) + [MOST]


def test_a_large_report_does_not_wait(receiving: Receiving) -> None:
    """Its bytes would."""
    operation, resource = STATUS
    receiving.reports("n1")
    for size, passed in ((LARGEST // 2, 0), (LARGEST, 2)):
        receiving.comes(operation, resource=resource, node=f"n{size}", content="x" * size)
        assert len(receiving.later(0.0)) == passed


def test_the_shortest_wait_of_a_group_is_that_of_all(receiving: Receiving) -> None:
    receiving.reports("n1", RENEWAL)
    receiving.reports("n1")
    assert receiving.reports("n2", RENEWAL) == []
    assert receiving.reports("n3") == []
    assert receiving.later(REPORT_SECONDS) == ["update", "patch"]
    assert receiving.later(RENEWAL_SECONDS) == []


def test_a_status_alone_waits_for_no_renewals_of_others(receiving: Receiving) -> None:
    """Of a thousand idle nodes one renews its lease every ten milliseconds; the status takes those that wait along."""
    receiving.reports("n1", RENEWAL)
    assert receiving.reports("n2", RENEWAL) == []
    assert receiving.reports("n3") == ["update", "patch"]
    assert receiving.reports("n3") == ["patch"], "nor does the next one of the same node"
    assert receiving.reports("n4", RENEWAL) == [], "renewals wait for each other as before"


@pytest.mark.parametrize(
    "other", [("query", "kube-node-lease/lease/n1"), ("insert", "null/node/n1"), ("delete", "default/pod/web")]
)
def test_any_other_message_goes_after_the_reports_that_wait(receiving: Receiving, other: tuple[str, str]) -> None:
    receiving.reports("n1")
    receiving.reports("n2")
    assert receiving.reports("n3", other) == ["patch", other[0]]
    assert receiving.reports("n1", other) == [other[0]]
