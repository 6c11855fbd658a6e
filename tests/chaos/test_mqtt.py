"""edgecore killed while messages of applications pass; `make chaos` does it ten times, at 1,000 messages a second."""

import pytest

from tests.chaos import mqtt
from tests.modules.edge.eventbus.broker import needs_mosquitto

pytestmark = needs_mosquitto


def test_an_acknowledged_message_arrives_although_edgecore_is_killed() -> None:
    """In order for each topic, to the cloud and to an application."""
    survived = mqtt.run(1, kills=1, rate=200, seconds=3.0)
    assert len(survived.up.acknowledged) == 601
    assert len(survived.down.acknowledged) > 1


@pytest.mark.slow
def test_ten_kills() -> None:
    """The whole of it, slower: a machine that runs all tests has no processor to spare."""
    survived = mqtt.run(2, kills=10, rate=300, seconds=30.0)
    assert len(survived.up.acknowledged) == 9001
