"""What nodes send before the router knows the Rules."""

from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.http.call import HttpCall, HttpReply
from beehive.testing import Harness
from modules.cloud.client.calls import ApiResult
from modules.cloud.client.transport import ApiRequest, ResponseListener
from modules.cloud.refusals import Refusals
from modules.cloud.router import deliveries
from modules.cloud.router.module import MOST_EARLY_BYTES, CloudRouter
from tests.modules.cloud.router.rule_server import Exchange, RuleServer
from tests.modules.cloud.router.rules import endpoints, from_topic

URL = "http://server.example/x"


class SlowServer(RuleServer):
    """An API server that answers when the test says so."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.is_open = False
        self._held: list[tuple[ApiRequest, ResponseListener]] = []

    def start(self, request: ApiRequest, listener: ResponseListener) -> Exchange:
        """Answer, now or later."""
        if self.is_open:
            return super().start(request, listener)
        self._held.append((request, listener))
        return Exchange()

    def open(self) -> None:
        """Answer waiting ones, and from now on immediately."""
        self.is_open = True
        for each in self._held:
            super().start(*each)


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        (
            [("up", MOST_EARLY_BYTES // 2), ("other", MOST_EARLY_BYTES // 2 + 1), ("other", 7)],
            [7, MOST_EARLY_BYTES // 2],
        ),
        ([*[("up", 0)] * 60, *[("other", 0)] * 41], [0] * 100),
        ([(f"up@n{number % 11}", 0) for number in range(1100)], [0] * 1000),
    ],
    ids=["in bytes", "in number of a node", "in number"],
)
def test_messages_before_the_rules_are_bounded(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[str, int]], taken: list[int]
) -> None:
    """A node may send 16 MiB in each, or empty ones; without the kinds of rules they would wait for ever. Those for
    which there is no room are counted.
    """
    posted: list[int] = []

    def perform(call: HttpCall, *_: Any, **__: Any) -> HttpReply:
        posted.append(len(call.body))
        return HttpReply(200, (), b"")

    monkeypatch.setattr(deliveries, "perform", perform)
    of_nodes = [from_topic(URL, "up", node=f"n{number}", name=f"n{number}") for number in range(11) if number != 1]
    server = SlowServer(*endpoints(), from_topic(URL), from_topic(URL, "other", name="r3"), *of_nodes)
    bee.answer(ModuleName.EDGECONTROLLER, lambda message: message.reply(bee.clock, ApiResult({})))
    bee.answer(ModuleName.CLOUDHUB, lambda message: message.reply(bee.clock, []))
    refusals = Refusals(bee.clock)
    bee.add(CloudRouter, refusals, server.connect)
    bee.start()
    for topic, size in sizes:
        bee.send(ModuleName.ROUTER, _sent(bee, topic, "x" * size))
    server.open()
    bee.run_for(10.0)
    assert sorted(posted) == taken
    assert refusals.counts == {("too many messages wait", "rules"): len(sizes) - len(taken)}


def _sent(bee: Harness, topic: str, text: str) -> Message:
    topic, _, node = topic.partition("@")
    fields = {"source": f"system:node:{node or 'n1'}", "group": "user"}
    return bee.message(f"node/{node or 'n1'}/cap/{topic}", "upload", text, **fields)
