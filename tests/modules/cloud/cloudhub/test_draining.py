"""The end of connections before cloudcore stops: the decisions, and cloudhub alone in virtual time."""

import pytest

from modules.cloud.cloudhub.draining import Draining
from modules.cloud.messages import DRAIN, DRAIN_RESOURCE, HANDLED, HANDLED_RESOURCE, Drain
from modules.cloud.websocket.link import LinkOpened
from tests.modules.cloud.cloudhub.test_module import Cloud, ListLink

NODES = tuple(f"n{number}" for number in range(10_000))


class EndingListLink(ListLink):
    """A link that can tell its node of the end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ended = False

    def end(self, code: int = 1001, reason: str = "") -> None:
        """Takes the news."""
        assert (code, reason) == (1001, "")
        self.is_ended = True


def test_the_ends_of_many_connections_begin_within_half_of_the_time() -> None:
    draining = Draining(NODES, now=100.0, seconds=8.0)
    assert len(draining.due(NODES, 102.0, lambda _: True)) == pytest.approx(5_000, abs=2)
    assert len(draining.due(NODES, 104.0, lambda _: True)) == len(NODES)


def test_few_connections_end_a_hundred_in_a_second() -> None:
    draining = Draining(NODES[:50], now=0.0, seconds=8.0)
    assert draining.due(NODES[:50], 0.0, lambda _: True) == ["n0"]
    assert len(draining.due(NODES[:50], 0.105, lambda _: True)) == 11
    assert len(draining.due(NODES[:50], 0.5, lambda _: True)) == 50


def test_an_unanswered_request_is_waited_for_while_there_is_time() -> None:
    draining = Draining(["n0"], now=0.0, seconds=8.0)
    assert draining.due(["n0"], 7.9, lambda _: False) == []
    assert draining.due(["n0"], 8.0, lambda _: False) == ["n0"]


def test_a_node_that_has_just_connected_is_released_immediately() -> None:
    assert Draining([], now=0.0, seconds=8.0).due(["late"], 0.0, lambda _: True) == ["late"]


def drains(cloud: Cloud) -> list[object]:
    """Asks cloudhub; returns the answers that will have come."""
    answers: list[object] = []
    message = cloud.bee.message(DRAIN_RESOURCE, DRAIN, Drain(8.0), source="control")
    cloud.bee.hive.request_then("cloudhub", message, 9.0, answers.append)
    cloud.bee.settle()
    return answers


def test_cloudhub_is_not_ready_and_ends_connections_when_requests_are_answered(cloud: Cloud) -> None:
    """n2 has nothing to wait for; the request of n1 is with edgecontroller for a second."""
    links = {node: EndingListLink() for node in ("n1", "n2")}
    for node, link in links.items():
        cloud.happens(LinkOpened(node, link))
    cloud.says(links["n1"], cloud.bee.message("default/secret/key", "query", group="meta", source="edged"))
    answers = drains(cloud)
    assert "stopping" in cloud.bee.hive.readiness()["cloudhub"].reason
    cloud.bee.run_for(1.0)
    assert (links["n1"].is_ended, links["n2"].is_ended, answers) == (False, True, [])
    cloud.bee.hive.send("cloudhub", cloud.bee.message(HANDLED_RESOURCE, HANDLED, {"n1": 1}, source="edgecontroller"))
    cloud.bee.run_for(0.2)
    assert (links["n1"].is_ended, len(answers)) == (True, 1)
    assert cloud.events()[-2:] == ["disconnected node/n2", "disconnected node/n1"]


def test_a_link_that_cannot_tell_is_closed(cloud: Cloud) -> None:
    link = cloud.connect()
    drains(cloud)
    cloud.bee.run_for(0.2)
    assert link.closed
