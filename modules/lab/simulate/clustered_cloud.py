"""The simulated cloud in two parts: the API server of a cluster, and a cloudcore that is its client."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.turns import Turns
from modules.apimachinery.kinds import JsonObject, key_of, uid_of, version_of
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.transport import ApiRequest, Exchange, ResponseListener
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.coordination.leases import API_VERSION, PLURAL
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.errors import DatabaseError
from modules.lab.simulate.api_network import ApiNetwork, SimulatedTransport
from modules.lab.simulate.api_server import SimulatedApiServer
from modules.lab.simulate.cloud import SimulatedCloud, known_kind
from modules.lab.simulate.failing_database import FailingDatabase, remove_database
from modules.lab.simulate.second_cloudcore import SecondCloudcore
from modules.lab.simulate.state_objects import DEFINITION, NODE_STATE, StateObjects
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.world import Process, World

_BEHIND = 180.0
"""Seconds during which cloudcore may not know of a change: a reflector lists after 120 s of silence, and retries."""

_COLLECTED_AFTER = 1.0
"""Seconds after the deletion of an object until what it owns is deleted."""
_LEASES = "kube-node-lease"
"""The namespace of the Leases of nodes."""

_RESTART_AFTER = 20.0
"""Seconds after a restore; meanwhile cloudcore sees that versions went back."""
_ON_ITS_WAY = 10.0
"""Seconds that nodes act on what cloudcore has sent before its restart."""


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
        self._embeds_api_server = False
        self._lease = LeaseSettings()
        first = first_version or int(world.scheduler.clock.now())
        self.api = SimulatedApiServer(world, statuses.stored, first)
        self.network = ApiNetwork(world, self.api)
        self.keeps_state = False
        """Whether cloudcore keeps its state of nodes in the cluster, and has no database."""
        self.states = StateObjects(self.api)
        self.second = SecondCloudcore(self, _SecondNetwork(self))
        self.restored: list[Callable[[], None]] = []
        """Called when the API server has been restored to an older state."""
        self.restarted: list[Callable[[], None]] = []
        """Called when cloudcore is restarted after that: until then it may have missed objects, as no version seems to
        go back, and have told nodes that they were deleted.
        """
        self._is_restored = False
        self._before: dict[str, str] = {}
        """Versions before the restore, by uid."""
        self._reverted: list[JsonObject] = []
        statuses.behind = _BEHIND

    @property
    def serves_calls(self) -> bool:
        """Whether the API server runs."""
        return self.api.process is not None

    @property
    def database_url(self) -> str:
        """The URL of a cloudcore's database; it is in memory if the state is in the cluster."""
        return IN_MEMORY if self.keeps_state else super().database_url

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
        """Start the API server with its stored objects."""
        of_devices = definitions() if self.has_devices else []
        self.api.definitions = [*of_devices, *((DEFINITION,) if self.keeps_state else ())]
        self.api.start()
        self.cluster = self.api.cluster
        if self._is_restored:
            self._is_restored = False
            self._clean_up()

    def stop(self) -> None:
        """Kill cloudcore."""
        self._kill()
        self.network.end_all()

    def close(self) -> None:
        """End everything, at the end of the run."""
        self.stop_second()
        self.stop()
        self.api.stop()

    def restore(self, age: float) -> None:
        """Give the API server, which is stopped, an older state: versions go back, and newer objects are deleted.

        A node ignores older states of an object, and an object that it was told to delete. So when the server is back,
        an administrator deletes all objects in an older state, before any client has seen them, and users apply their
        objects again. Later cloudcore is restarted, as Kubernetes asks for after a restore: a watch may go on with a
        version that the server has reached a second time, and then misses the changes before it.
        """
        if not self._is_restored:
            self._before = {uid_of(obj): version_of(obj) for obj in self.api.held()}
        self.api.restore(age)
        self._reverted = [obj for obj in self.api.held() if self._before.get(uid_of(obj)) != version_of(obj)]
        self.came_back |= {uid_of(obj) for obj in self._reverted}
        self._is_restored = True

    def _clean_up(self) -> None:
        """Delete the objects that came back with a restore."""
        reverted, self._reverted = self._reverted, []
        for obj in reverted:
            kind = NODE_STATE if obj["kind"] == NODE_STATE.name else known_kind(obj["kind"])
            key = key_of(obj)
            if kind.name == "Node":
                self._delete_node(key.name)
            place = key.namespace if kind.namespaced else ""
            options = {"gracePeriodSeconds": 0}
            self.api.call(
                ApiCall(
                    verb="delete",
                    api_version=kind.api_version,
                    plural=kind.plural,
                    namespace=place,
                    name=key.name,
                    options=options,
                )
            )
        self.endpoint.all_excused = self.world.now() + _BEHIND  # it ends all when it sees the restore
        self.world.at(self.world.now() + _RESTART_AFTER, self._restart)
        self.stale_until = self.world.now() + _RESTART_AFTER + _ON_ITS_WAY
        self._unsettled.update(self.wanted)
        for restored in self.restored:
            restored()

    def _restart(self) -> None:
        self.stop_second()
        for restarted in self.restarted:
            restarted()
        if self.process is not None:
            self.stop()
            self.start()

    def opened(self, make: Callable[[], FailingDatabase]) -> FailingDatabase:
        """Open the database; the administrator deletes a damaged one immediately, after which it is made again."""
        try:
            return make()
        except DatabaseError as error:
            without_directory = str(error).replace(f"{self.state_path.parent}/", "")
            self.world.log_line("cloud", f"cannot start: {without_directory}")
            remove_database(self.state_path)
            return make()

    def _open_database(self, *, stores_objects: bool) -> FailingDatabase:
        return self.opened(partial(super()._open_database, stores_objects=stores_objects))

    def _delete_node(self, node: str) -> None:
        super()._delete_node(node)
        if self.keeps_state:
            self.states.remove(node)  # its owner is the Node: it is collected with it
        self.world.at(self.world.now() + _COLLECTED_AFTER, lambda: self._collect_lease(node))
        self.endpoint.excused[node] = self.world.now() + _BEHIND

    def _node_deleted(self, node: str) -> None:
        super()._node_deleted(node)
        self.endpoint.excused[node] = self.world.now() + _BEHIND

    def _collect_lease(self, node: str) -> None:
        """Delete the Lease of a node that was deleted, as the garbage collector of a cluster does."""
        if self.serves_calls and self.find("Node", "", node) is None:
            self.api.call(ApiCall(verb="delete", api_version=API_VERSION, plural=PLURAL, namespace=_LEASES, name=node))

    def request(self, request: ApiRequest, listener: ResponseListener, client: Process) -> Exchange | None:
        """Send a client's request over HTTP, by the way to the API server that cloudcore has."""
        return SimulatedTransport(self.network, client).start(request, listener)

    def _make_cluster(self, process: Process, hive: Hive) -> RemoteCluster:  # noqa: ARG002 - of the other cloud
        return RemoteCluster(self.network.connect, self.keeps_state)

    def _synced(self) -> list[tuple[str, str]]:
        return self.states.pods() if self.keeps_state else super()._synced()

    def _call(self, call: ApiCall, then: Callable[[ApiResult | BeehiveError], None]) -> None:
        then(self.api.call(call))


class _SecondNetwork:
    """The second cloudcore's way to the API server (`SecondServer`)."""

    def __init__(self, cloud: ClusteredCloud) -> None:
        self._cloud = cloud
        self._network = ApiNetwork(cloud.world, cloud.api)

    def join(self, _process: Process, _hive: Hive, _turn: Turns) -> RemoteCluster:
        """Return the cluster, as the second cloudcore reaches it."""
        return RemoteCluster(self._network.connect, self._cloud.keeps_state)

    def leave(self) -> None:
        """End its connections."""
        self._network.end_all()
