"""What cloudcore tells of a node's connection."""

from types import SimpleNamespace
from typing import cast

import pytest

from modules.cloud.cloudhub.node_connection import Connection
from modules.cloud.cloudhub.node_session import NodeSession
from tests.modules.cloud.cloudhub.test_module import ListLink


def test_times_are_seconds_until_now() -> None:
    connection = Connection(ListLink(), 95.0, "c1", 90.0)
    connection.record_error("no room", 97.0)
    session = SimpleNamespace(waiting=0, unacknowledged=1, oldest_unacknowledged=lambda: 92.0)
    told = connection.report("n1", cast("NodeSession", session), 100.0)
    seconds = told.connected_seconds, told.keepalive_seconds, told.oldest_seconds, told.last_error_seconds
    assert seconds == (10.0, 5.0, 8.0, 3.0)


@pytest.mark.parametrize(
    ("sent", "ahead"), [(1_800_000_005_000, 5.0), (1_799_999_999_000, -1.0), (0, 0.0), (2**53, 0.0)]
)
def test_a_keepalive_tells_how_far_the_node_s_clock_is_ahead(sent: int, ahead: float) -> None:
    connection = Connection(ListLink(), 0.0, "c1", 0.0)
    connection.record_keepalive(sent, 1.0, 1_800_000_000.0)
    assert connection.clock_ahead == ahead
