"""The API server of a simulated cluster: the embedded one's objects and HTTP face, in a process of its own."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.watch_history import WatchHistory, WatchQuery, WatchStart
from modules.lab.simulate.cloud_store import Changed, ObservedStore
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.http_service import Serving
from modules.lab.simulate.world import Process, WallClock, World

_BACKUP_SECONDS = 5.0
_NODE = kind_named("Node")


class Backup(NamedTuple):
    """The objects at a time."""

    at: float
    version: int
    objects: list[JsonObject]


class SimulatedApiServer:
    """An API server that can be stopped, and started again with its objects or with a backup's.

    Args:
        world: the world of the run.
        pod_changed: told each change of a pod.
        first_version: its first resourceVersion.
    """

    def __init__(self, world: World, pod_changed: Changed, first_version: int) -> None:
        self.world = world
        self.process: Process | None = None
        self.stopped: list[Callable[[], None]] = []
        """Called when it stops: connections break."""
        self._pod_changed = pod_changed
        self._wall = WallClock()
        self._starts = 0
        self._backups: list[Backup] = []
        self._subscriptions = Subscriptions()
        self._held = Backup(0.0, first_version, [])
        """Its objects when it was stopped."""
        self.cluster: Cluster
        self._history: WatchHistory
        self._service: ApiService
        self.definitions: Sequence[JsonObject] = ()
        """CustomResourceDefinitions that are applied at each start."""

    def start(self) -> None:
        """Start with the objects that it had, unless it runs."""
        if self.process is not None:
            return
        self._starts += 1
        process = self.process = Process(self.world, "api", self._wall, self._starts)
        storage = ObservedStore(process.clock, self._held.version, self._pod_changed)
        self.cluster = Cluster(process.clock, storage=storage)
        self.cluster.storage.restore(self._held.objects)
        for definition in self.definitions:
            self.cluster.apply(definition)
        self.cluster.storage.drain_events()
        self.cluster.storage.set_savepoint()
        self._history = WatchHistory(self.cluster.storage)
        self._service = ApiService(Requester(self), self._subscriptions, "v1.32.0", process.clock)
        self.world.log_line("api", f"life {self._starts} begins with version {self.cluster.storage.version}")
        self._back_up(process)

    def stop(self) -> None:
        """Kill the process; its objects stay."""
        process, self.process = self.process, None
        if process is None:
            return
        self._held = self._present()
        process.kill()
        self._subscriptions.close()
        for stopped in self.stopped:
            stopped()

    def restore(self, age: float) -> None:
        """Replace the objects by a backup's, while it is stopped; the newest of at least this age in seconds."""
        old = [backup for backup in self._backups if backup.at <= self.world.now() - age]
        if old:
            self._held = old[-1]
            self._backups = old
            self.world.log_line("api", f"restored to version {self._held.version}")

    def held(self) -> list[JsonObject]:
        """Return its objects at the next start."""
        return self._held.objects

    def compact(self) -> None:
        """Forget the past, and end all watches: earlier versions must list, and lists in parts begin again."""
        if self.process is not None:
            self._history = WatchHistory(self.cluster.storage)
            self.cluster.storage.forget_past()
            self._subscriptions.end_all()

    def serve(self, exchange: SimulatedExchange) -> None:
        """Answer a request, on a thread of the process."""
        process = self.process
        if process is not None:
            process.run(Serving(self._service, process, exchange).run)

    def call(self, call: ApiCall) -> ApiResult:
        """Carry out a request, and report the changes to watches (`ApiCaller`)."""
        storage = self.cluster.storage
        result = api_calls.serve(self.cluster, call)
        for event in storage.drain_events():
            self._subscriptions.publish(self._history.record(event))
        storage.set_savepoint()
        return result

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch (`ApiCaller`)."""
        return self._history.start(query)

    def _present(self) -> Backup:
        storage = self.cluster.storage
        objects = [obj for key in storage if (obj := storage.find(key)) is not None]
        return Backup(self.world.now(), storage.version, objects)

    def _back_up(self, process: Process) -> None:
        """Make a backup now and then, from when there is a Node."""
        if self.cluster.storage.list(_NODE):
            self._backups.append(self._present())
        process.clock.after(_BACKUP_SECONDS, lambda: self._back_up(process))
