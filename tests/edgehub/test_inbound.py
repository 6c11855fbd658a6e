"""What the cloud sends to a module that this node does not run."""

import logging

import pytest

from beehive import Hive, encode
from beehive.simulation import Simulation
from edgehub.counters import LinkCounters
from edgehub.inbound import Inbound, LinkHooks
from tests.edgehub.messages import message


def test_a_node_without_mqtt_logs_subscriptions_of_rules_once(caplog: pytest.LogCaptureFixture) -> None:
    """The cloud sends them at each connection; they were a dead letter each time."""
    hive = Hive(Simulation())
    hooks = LinkHooks(lambda: None, lambda _: None, lambda _: None, lambda _: None)
    inbound = Inbound(hive, LinkCounters(), hooks)
    with caplog.at_level(logging.INFO):
        for topic in ("default/alarms", "default/news", "default/alarms"):
            inbound.received(encode(message(topic, "subscribe", source="router_eventbus", group="user")))
    (told,) = caplog.records
    assert "this node runs no eventbus" in told.getMessage() and told.levelno == logging.INFO
    assert len(hive.dead_letters) == 0
