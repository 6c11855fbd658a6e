"""A second cloudcore beside a simulated cloud's first one. Both share a database, or the state in the cluster, and
take nodes from each other.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from beehive.turns import Turns
from modules.cloud.cloudhub.module import CloudHubSettings
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.storage.database.database import Database
from modules.cloud.websocket.link import LinkEvent
from modules.lab.simulate.checked_hive import CheckedHive
from modules.lab.simulate.cloud import add_identities, start_or_end
from modules.lab.simulate.failing_database import FailingDatabase
from modules.lab.simulate.network import CloudListener
from modules.lab.simulate.observed_cloudhub import ObservedCloudHub
from modules.lab.simulate.streams import CloudcoreStreams
from modules.lab.simulate.world import Process, WallClock

if TYPE_CHECKING:
    from modules.lab.simulate.cloud import SimulatedCloud


class SecondServer(Protocol):
    """The API server of a second cloudcore."""

    def join(self, process: Process, hive: CheckedHive, turn: Turns) -> RemoteCluster:
        """Return the cluster of a second cloudcore that starts, with the turn of its databases."""

    def leave(self) -> None:
        """Take that the second cloudcore was killed."""


class SecondCloudcore:
    """A cloudcore that nodes connect to while it runs; its way to the API server has no faults but the server's own.
    By their Leases the two divide the duties that belong to no node's connection.

    Args:
        cloud: has the first cloudcore.
        server: the API server.
    """

    def __init__(self, cloud: "SimulatedCloud", server: SecondServer) -> None:
        self._cloud = cloud
        self._server = server
        self._wall = WallClock()
        self._starts = 0
        self._process: Process | None = None
        self._database: Database | None = None
        self.known = KnownCloudcores()
        """The cloudcores that it takes for alive."""
        self._listener: CloudListener | None = None
        self._streams: CloudcoreStreams | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start it, unless it runs; from now on nodes that connect come to it."""
        if self._process is not None:
            return
        self._starts += 1
        world, endpoint = self._cloud.world, self._cloud.endpoint
        process = self._process = Process(world, "second", self._wall, self._starts)
        hive, turn = CheckedHive(process), Turns()
        cluster = self._server.join(process, hive, turn)
        database = self._database = self._cloud.opened(partial(self._open_database, turn))

        def listen(deliver: Callable[[LinkEvent], None]) -> CloudListener:
            self._listener = CloudListener(endpoint, process, deliver, identities)
            return self._listener

        identities = add_identities(hive, cluster) if self._cloud.has_identities else None
        hive.add(ObservedCloudHub, CloudHubSettings(), listen, {})
        self.known = KnownCloudcores(database.cloudcore)
        hive.add(EdgeController, cluster, database, None, LeaseSettings(), self.known, NodeWatches())
        hive.add(DynamicController)
        if self._cloud.stream_site is not None:
            self._streams = CloudcoreStreams(self._cloud.stream_site, process, hive, self.known, "second")
        world.log_line("second", f"life {self._starts} begins")
        start_or_end(process, hive, self._start_again)

    def _start_again(self, process: Process) -> None:
        if self._process is process:
            self.stop()
            self.start()

    def _open_database(self, turn: Turns) -> FailingDatabase:
        return FailingDatabase(
            self._cloud.database_server,
            self._cloud.database_url,
            f"second-{self._starts}",
            shared=self._cloud.is_shared,
            stores_objects=False,
            turn=turn,
        )

    def stop(self) -> None:
        """Kill it; nodes connect to the first one again, if that runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if self._streams is not None:
            self._streams.end()
        if self._listener is not None:
            self._cloud.endpoint.end(self._listener)
            for connection in list(self._listener.connections):
                connection.close_from_cloud()
        if self._database is not None:
            self._database.close()
        self._server.leave()
        self._cloud.world.log_line("second", "killed")
