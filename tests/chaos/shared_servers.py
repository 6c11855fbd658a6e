"""What several cloudcores share, and can lose for a while: their PostgreSQL, and the API server of their cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.chaos.cloudcores import OneCluster
from tests.support.postgresql import PrivatePostgresql


class SharedServer(NamedTuple):
    """A server that can be stopped and started."""

    name: str
    stop: Callable[[], None]
    start: Callable[[], None]
    """Returns when it serves."""

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop it meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.start()


def database_server(server: PrivatePostgresql) -> SharedServer:
    """Return a PostgreSQL; it is stopped without a shutdown of its own, and recovers when it starts."""
    return SharedServer("PostgreSQL", server.stop, server.start)


def api_server(cluster: OneCluster) -> SharedServer:
    """Return the API server of a cluster; it is stopped with SIGKILL."""

    def start() -> None:
        cluster.core.start()
        cluster.core.wait()

    return SharedServer("the API server", cluster.core.kill, start)
