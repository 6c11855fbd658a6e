"""A streaming server whose containers are this machine."""

from collections.abc import Iterator

import pytest

from beehive.clock import RealClock
from modules.runtimes.streaming import StreamingServer
from tests.modules.runtimes.streaming.backend import LocalBackend


@pytest.fixture
def backend() -> Iterator[LocalBackend]:
    """The runtime."""
    made = LocalBackend()
    yield made
    made.conmon.container.close()
    made.conmon.close()


@pytest.fixture
def server(backend: LocalBackend) -> Iterator[StreamingServer]:
    """The server, started."""
    clock = RealClock()
    made = StreamingServer(backend, clock)
    made.start()
    yield made
    made.stop()
    clock.close()
