"""The simulated cloud in two parts: the API server of a cluster, and a cloudcore that is its client."""

from collections.abc import Callable
from pathlib import Path

from beehive.errors import BeehiveError
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.kinds import JsonObject
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller.cluster_api import RemoteCluster
from modules.tools.simulate.api_network import ApiNetwork
from modules.tools.simulate.api_server import SimulatedApiServer
from modules.tools.simulate.cloud import SimulatedCloud
from modules.tools.simulate.status_watch import StatusWatch
from modules.tools.simulate.world import Process, World


class ClusteredCloud(SimulatedCloud):
    """A cloudcore between the API server of a cluster and the nodes; each of the two can be stopped on its own.

    Users and other writers call the API server without faults.

    Args:
        world: as for `SimulatedCloud`, and so are the others.
        root: a directory of its own.
        statuses: receives the changes of pods' statuses.
        first_version: see `Plan.first_version`.
    """

    def __init__(self, world: World, root: Path, statuses: StatusWatch, first_version: int = 0) -> None:
        super().__init__(world, root, statuses)
        first = first_version or int(world.scheduler.clock.now())
        self.api = SimulatedApiServer(world, statuses.stored, first)
        self.network = ApiNetwork(world, self.api)
        self.restored: list[Callable[[], None]] = []
        """Called when the API server has been restored to an older state."""
        self._is_restored = False

    @property
    def takes_calls(self) -> bool:
        """Whether the API server runs."""
        return self.api.process is not None

    @property
    def is_running(self) -> bool:
        """Whether cloudcore and the API server run."""
        return self.process is not None and self.api.process is not None

    def start(self) -> None:
        """Start cloudcore, and at first the API server."""
        if not hasattr(self.api, "cluster"):
            self.start_api()
        super().start()

    def start_api(self) -> None:
        """Start the API server with what it holds."""
        self.api.start()
        self.cluster = self.api.cluster
        if self._is_restored:
            self._is_restored = False
            for restored in self.restored:
                restored()

    def stop(self) -> None:
        """Kill cloudcore."""
        self._kill()
        self.network.end_all()

    def close(self) -> None:
        """End everything, at the end of the run."""
        self.stop()
        self.api.stop()

    def restore(self, age: float) -> None:
        """Give the API server, which is stopped, an older state; users apply again what they want."""
        before = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        self.api.restore(age)
        self.came_back |= {uid for uid, pod in self.api.held_pods().items() if _differs(before.get(uid), pod)}
        self._unsettled.update(self.wanted)
        self._is_restored = True

    def _make_cluster(self, process: Process) -> Cluster | RemoteCluster:  # noqa: ARG002 - of the other cloud
        return RemoteCluster(self.network.connect)

    def _call(self, call: ApiCall, then: Callable[[ApiResult | BeehiveError], None]) -> None:
        then(self.api.call(call))


def _differs(before: JsonObject | None, restored: JsonObject) -> bool:
    """Return whether a restored pod was gone, was being deleted, or had another spec."""
    return before is None or bool(before["metadata"].get("deletionTimestamp")) or before["spec"] != restored["spec"]
