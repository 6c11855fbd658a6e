"""The connection to a plug-in on a busy node."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beehive.clock import RealClock
from edged.plugins.socket import PluginSocket
from edged.server.streaming import relay
from protos.csi.v1 import api_pb2 as csi
from tests.support.csi_driver import CsiDriver
from tests.support.directories import short_directory

SECONDS = 60.0


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: a socket's path has 107 bytes."""
    with short_directory("plug-") as made:
        yield made


def test_a_plugin_that_is_slow_to_answer_a_connection_is_waited_for(directory: Path) -> None:
    """It had a tenth of a second, and was unavailable then."""
    clock = RealClock()
    with (
        CsiDriver(directory) as driver,
        socket.socket(socket.AF_UNIX) as front,
        socket.socket(socket.AF_UNIX) as behind,
        ThreadPoolExecutor(2) as threads,
    ):
        front.bind(str(directory / "slow.sock"))
        front.listen()
        plugin = PluginSocket(directory / "slow.sock")
        answer = threads.submit(
            plugin.call, "csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse, SECONDS
        )
        with pytest.raises(TimeoutError):
            answer.result(0.5)
        behind.connect(str(driver.socket))
        with front.accept()[0] as accepted:
            relayed = threads.submit(relay, accepted, behind, b"", clock, SECONDS)
            assert answer.result(SECONDS).node_id
            plugin.close()
            relayed.exception(SECONDS)  # it ends with the connection, in order or not
    clock.close()
