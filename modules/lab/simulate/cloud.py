"""The simulated cloud."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beehive.clock import Clock
from beehive.errors import BeehiveError, StartError
from beehive.hive import Hive
from beehive.message import Message
from beehive.turns import Turns
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, kind_named, uid_of
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.applications import NODE_GROUP
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.client.transport import ApiRequest, Exchange, ResponseListener
from modules.cloud.cloudhub.module import CloudHubSettings
from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.controllers.application_definitions import definitions as application_definitions
from modules.cloud.controllers.module import Controllers
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.devices import DEVICE, DEVICE_MODEL, DEVICE_STATUS
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.module import IdentitiesModule, known_identities
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import EventType
from modules.cloud.websocket.link import LinkEvent
from modules.lab.simulate.checked_hive import CheckedHive
from modules.lab.simulate.cloud_store import ObservedStore
from modules.lab.simulate.embedded_server import EmbeddedServer, Published
from modules.lab.simulate.failing_database import FailingDatabase, SimulatedDatabaseServer, SimulatedRoom
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.network import CloudEndpoint, CloudListener
from modules.lab.simulate.observed_cloudhub import ObservedCloudHub
from modules.lab.simulate.plan import Write, Writer
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.streams import CloudcoreStreams, StreamSite
from modules.lab.simulate.watch_client import WatchClient
from modules.lab.simulate.workload_watch import WorkloadWatch
from modules.lab.simulate.world import Process, WallClock, World
from modules.lab.simulate.writers import OF_NODES, OF_STATUS, call_of

if TYPE_CHECKING:
    from modules.lab.simulate.second_cloudcore import SecondCloudcore

Key = tuple[str, str]
"""Kind and name; all objects are in namespace `default`."""
_ANSWER_WITHIN = 30.0
_ENDED_FOR = 2.0
"""Seconds after which an init system starts a process again that has ended."""
_DELETED = -(1 << 62)
"""The number of an acknowledged deletion is below; such a record is of no object that a node has."""
_SLACK = 3.0
"""Seconds within which controllers see a change while all is well."""
_LISTED = 60.0
"""Seconds of a connection in which a node has certainly compared its pods with a list."""
_BEGINS = 60.0
"""Seconds within which controllers of a cloudcore that starts, or whose database has failed, see how things are."""
_POD = kind_named("Pod")
_CUSTOM = {kind.name: kind for kind in (DEVICE, DEVICE_MODEL, DEVICE_STATUS, NODE_GROUP)}


def known_kind(name: str) -> Kind:
    """Return a kind of objects that the simulation has."""
    return _CUSTOM.get(name) or kind_named(name)


def start_or_end(process: Process, hive: Hive, ended: Callable[[Process], None]) -> None:
    """Start the modules of a cloudcore; `ended` is called some time after a failed start, as cloudcore ends."""
    world = process.world

    def start() -> None:
        try:
            hive.start()
        except StartError as error:
            if not isinstance(error.__cause__, DatabaseError):
                raise
            world.log_line(process.name, "cannot start: its database fails")
            world.at(world.now() + _ENDED_FOR, lambda: ended(process))

    process.run(start)


def add_identities(hive: Hive, cluster: RemoteCluster) -> KnownIdentities:
    """Add the module that knows the revoked nodes of a cluster."""
    known = known_identities(hive)
    hive.add(IdentitiesModule, known, cluster.connect)
    return known


class SimulatedCloud:
    """The cloud's modules in a process that can be restarted with or without its objects.

    Args:
        world: the world of the run.
        root: a directory of its own.
        statuses: receives the changes of pods' statuses.
        first_version: see `Plan.first_version`.
    """

    objects_lost_at = -1.0
    """When cloudcore has lost its objects last: it tells nobody of the end of earlier ones."""
    name = "cloud"
    clients: Sequence[WatchClient] = ()
    """Watch its objects."""
    has_devices = False
    """Whether devicecontroller runs."""
    has_identities = False
    """Whether nodes have certificates that can be revoked."""
    hostile = ""
    """Name of a node that acknowledges nothing."""
    has_workloads = False
    """Whether the controllers of Deployments and their likes run."""
    has_groups = False
    """Whether there are NodeGroups, whose controller labels nodes."""
    stream_site: StreamSite | None = None
    """Has the stream tunnels and their users; None without tunnels."""
    _streams: CloudcoreStreams | None = None
    server: EmbeddedServer | None = None
    """Its embedded API server; None in a cluster."""
    published: Published | None = None
    """Sees what the watches of that are told."""
    second: "SecondCloudcore | None" = None
    """Runs only while a fault wants it; None: there is none."""

    def __init__(self, world: World, root: Path, statuses: StatusWatch, first_version: int = 0) -> None:
        self.world = world
        self._statuses = statuses
        self._first_version = first_version
        self.endpoint = CloudEndpoint()
        self.endpoint.has_node = lambda node: self.find("Node", "", node) is not None
        self.database_server = SimulatedDatabaseServer(world)
        self.workloads = self._new_watch()
        self._lease: LeaseSettings | None = None
        """The Lease for dividing duties between cloudcores."""
        self.known = KnownCloudcores()
        """The cloudcores that this one takes for alive."""
        self.identities: KnownIdentities | None = None
        """Knows the nodes that are locked out."""
        self._embeds_api_server = True
        """Whether the API server ends with cloudcore."""
        self.is_shared = False
        """Whether another cloudcore may use the database."""
        self.wanted: dict[Key, JsonObject | None] = {}
        """Manifests of the objects that users want, by kind and name; None for an object to be deleted."""
        self.came_back: set[str] = set()
        """Uids of pods that a restore of the objects has brought back to an earlier state: nodes may be ending them."""
        self.torn: set[str] = set()
        """Uids of pods whose Nodes somebody has deleted: other pods of their names may run meanwhile."""
        self.stale_until = -1.0
        """Until when cloudcore may go on with objects from before a restore, as it was not restarted after that yet: it
        may end newer ones of their names.
        """
        self._forgotten: set[str] = set()
        self._forgotten_with_nodes: dict[str, str] = {}
        """The node of each uid."""
        self._lists_are_complete = False
        self._unsettled: set[Key] = set()
        self._asked: set[Key] = set()
        self._path = root / "cloud.db"
        self._wall = WallClock()
        self._starts = 0
        self.process: Process | None = None
        self.hive: Hive | None = None
        self.cluster: Cluster
        self._turn = Turns()
        self._databases: list[Database] = []
        self._noted: dict[str, tuple[str, ...]] = {}
        self._room = SimulatedRoom(self.database_server)
        self._listener: CloudListener | None = None
        self._deliveries: dict[str, NodeSession] = {}
        root.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start the process."""
        self._forgotten_with_nodes = self._still_forgotten_with_nodes()
        self._starts += 1
        process = self.process = Process(self.world, "cloud", self._wall, self._starts)
        hive = self.hive = CheckedHive(process)
        self._turn = Turns()
        cluster = self._make_cluster(process, hive)
        self.identities = add_identities(hive, cluster) if self.has_identities else None
        database = self._open_database(stores_objects=False)
        self._lists_are_complete = not database.is_new
        self._deliveries = {}
        hive.add(
            ObservedCloudHub,
            CloudHubSettings(),
            lambda deliver: self._make_listener(process, deliver),
            self._deliveries,
        )
        self.known = KnownCloudcores(database.cloudcore)
        hive.add(EdgeController, cluster, database, None, self._lease, self.known, NodeWatches())
        hive.add(DynamicController)
        if self.stream_site is not None:
            self._streams = CloudcoreStreams(self.stream_site, process, hive, self.known, "cloud")
        if self.has_workloads:
            self.workloads.blind(_BEGINS)
            assert self.server is not None  # noqa: S101 - there are no workloads in a cluster
            hive.add(Controllers, self.server.subscriptions, self.known, may_be_several=False)
        if self.has_devices:
            hive.add(DeviceController, Refusals(process.clock), is_embedded=self._embeds_api_server)
        self.world.log_line("cloud", f"life {self._starts} begins")
        start_or_end(process, hive, self._start_again)

    def _start_again(self, process: Process) -> None:
        """Start a process again that could not start, as an init system does."""
        if self.process is process:
            self.stop()
            self.start()

    def _make_cluster(self, process: Process, hive: Hive) -> RemoteCluster:
        """Return edgecontroller's API server: the embedded one."""
        self.server = self.make_server(process, hive, self._open_database(stores_objects=True))
        self.cluster = self.server.cluster
        return self.server.remote

    def make_server(self, process: Process, hive: Hive, database: FailingDatabase) -> EmbeddedServer:
        """Make an API server of a cloudcore: it begins above the versions of a lost database."""
        clock = process.clock
        first = self._next_version(clock) if database.is_new else 1
        storage = ObservedStore(clock, first, self._pod_changes, self._stored if self.has_workloads else None)
        kinds = [
            *(definitions() if self.has_devices else ()),
            *(application_definitions() if self.has_groups else ()),
        ]
        return EmbeddedServer(process, hive, Cluster(clock, storage=storage), database, kinds, self.published)

    def request(self, request: ApiRequest, listener: ResponseListener, client: Process) -> Exchange | None:
        """Send a client's request over HTTP; None if no API server listens."""
        server = self._any_server()
        if server is None:
            return None
        exchange = SimulatedExchange(request, listener, client, "the simulated API server")
        server.serve(exchange)
        return exchange

    def _any_server(self) -> EmbeddedServer | None:
        """Return an embedded API server that runs."""
        return self.server if self.server is not None and self.server.is_running else None

    def _new_watch(self) -> WorkloadWatch:
        return WorkloadWatch(self._objects, self.world.now, self.world.violated, _SLACK)

    def _objects(self, kind: str) -> list[JsonObject]:
        return self.newest.storage.list(kind_named(kind))

    def _pod_changes(self, old: JsonObject, new: JsonObject) -> None:
        node = old["spec"].get("nodeName")
        if not node:
            return  # no node has it yet: the scheduler says where it goes
        if self.has_workloads and (self.workloads.is_silent(node) or self.find("Node", "", node) is None):
            self._statuses.others_write(old, "the controller of silent and deleted nodes")()
        self._statuses.stored(old, new)

    def _stored(self, change: EventType, new: JsonObject, old: JsonObject | None) -> None:
        if self.database_server.fails or self.database_server.loses:
            self.workloads.blind(_BEGINS)
        self.workloads.changed(change, new, old)

    def _open_database(self, *, stores_objects: bool) -> FailingDatabase:
        database = FailingDatabase(
            self.database_server,
            self.database_url,
            f"cloud-{self._starts}",
            shared=self.is_shared,
            stores_objects=stores_objects,
            turn=self._turn,
            room=self._room if self._embeds_api_server else None,
        )
        self._databases.append(database)
        return database

    @property
    def newest(self) -> Cluster:
        """The objects as they are now."""
        return self.cluster

    @property
    def database_url(self) -> str:
        """The URL of a cloudcore's database."""
        return str(self._path)

    @property
    def state_path(self) -> Path:
        """The file of cloudcore's database."""
        return self._path

    @property
    def serves_calls(self) -> bool:
        """Whether the API server runs."""
        return self.hive is not None

    @property
    def is_running(self) -> bool:
        """Whether all its processes run."""
        return self.process is not None

    def _next_version(self, clock: Clock) -> int:
        """Return the first resourceVersion. A cloud that has lost its objects counts on above the versions that nodes
        have seen.
        """
        return self._first_version or int(clock.now())

    def write(self, write: Write) -> None:
        """Let another writer change a pod or a Node object; the answer is ignored."""
        kind, namespace = ("Node", "") if write.writer in OF_NODES else ("Pod", "default")
        obj = self.find(kind, namespace, write.name) if self.serves_calls else None
        if obj is None:
            return
        ended = self._statuses.others_write(obj, write.writer.value) if write.writer in OF_STATUS else lambda: None
        if write.writer is Writer.NODE_DELETED:
            self._delete_node(write.name)
            ended = partial(self._node_deleted, write.name)

        def answered(answer: ApiResult | BeehiveError) -> None:
            if not isinstance(answer, BeehiveError):  # without an answer in time it may still be carried out
                ended()

        self._call(call_of(write), answered)

    def _delete_node(self, node: str) -> None:
        """Forget a node's pods (KubeEdge's ObjectSyncs go with their node) and allow its connection to end. The node
        may register again.
        """
        self.endpoint.forgotten_nodes.add(node)
        self.endpoint.deletions[node] += 1
        self.torn |= self.pods_of(node).keys()
        uids = self.pods_of(node).keys() | {uid for uid, its in self._synced() if its == node}
        self._forgotten_with_nodes |= dict.fromkeys(uids, node)
        for connection in self._listener.connections if self._listener is not None else ():
            if connection.line.node == node:
                connection.may_end()

    def _node_deleted(self, node: str) -> None:
        """Note that the deletion of a Node is answered."""
        self.endpoint.deletions[node] -= 1

    def stop(self) -> None:
        """Kill the process."""
        if self.process is not None and self._first_version:
            self._first_version = self.newest.storage.version
        self._kill()

    def close(self) -> None:
        """End everything, at the end of the run."""
        self.stop()

    def _kill(self) -> None:
        process, self.process, self.hive = self.process, None, None
        if process is not None:
            process.kill()
            if self._embeds_api_server:
                self._statuses.writes_lost()
        if self._streams is not None:
            self._streams.end()
        if self._listener is not None:
            self.endpoint.end(self._listener)
            for connection in list(self._listener.connections):
                connection.close_from_cloud()
        if self.server is not None:
            self.server.end()
        databases, self._databases = self._databases, []
        for database in databases:
            database.close()
        self._lose_calls()

    def _lose_calls(self) -> None:
        """Forget the users' calls at the cloudcore that has ended: they get no answer."""
        self._asked.clear()

    @property
    def forgotten(self) -> set[str]:
        """Uids of pods whose deletion may never reach their node: pods and pending deletions that the cloud had when it
        lost its database, and pods of deleted nodes, because a cloud with a new database does not call its lists
        complete.
        """
        return self._forgotten | self._still_forgotten_with_nodes().keys()

    def _still_forgotten_with_nodes(self) -> dict[str, str]:
        """Return the uids, with their nodes, that no complete list has told a node to be gone."""
        listener = self._listener
        if not self._lists_are_complete or listener is None:
            return self._forgotten_with_nodes
        known = self._forgotten_with_nodes.items()
        return {uid: node for uid, node in known if listener.longest(node) < _LISTED}

    def forget(self) -> None:
        """Lose all objects while the process is stopped; users apply them again later."""
        self.objects_lost_at = self.world.now()
        self._forgotten |= self._uids() | {uid for uid, _ in self._synced()}
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._unsettled.update(key for key, document in self.wanted.items() if document is not None)
        for client in self.clients:
            client.list_again()

    def set_object(self, kind: str, name: str, document: JsonObject | None) -> None:
        """Apply an object, or with `document=None` delete it; repeated until the cloud accepts it."""
        self.wanted[kind, name] = document
        self._unsettled.add((kind, name))
        if (kind, name) not in self._asked:
            self._ask((kind, name))

    def reconcile(self) -> None:
        """Repeat the commands that the cloud has not accepted; called now and then. Also note which cloudcores each one
        takes for alive, when that changes.
        """
        for key in sorted(self._unsettled - self._asked):
            self._ask(key)
        for each in (self.known, *(() if self.second is None else (self.second.known,))):
            if each.alive != self._noted.get(each.own, ()):
                self._noted[each.own] = each.alive
                self.world.log_line("leases", f"{each.own} takes for alive: {', '.join(each.alive)}")

    def settled(self) -> bool:
        """Return whether the cloud has accepted all commands."""
        return not self._unsettled

    def accepted(self) -> set[Key]:
        """Return kind and name of the objects that the cloud has accepted."""
        return {key for key, document in self.wanted.items() if document is not None and key not in self._unsettled}

    def disagreements(self) -> Iterator[str]:
        """Yield the workloads that are not as wanted, and cloudcores that take the wrong cloudcores for alive."""
        if self.has_workloads:
            yield from self.workloads.disagreements()
        yield from self._left_over_records()
        for client in self.clients:
            yield from client.disagreements(self.newest.storage.list(client.kind))
        if self.second is None:
            return
        known = [self.known] if self.process is not None else []
        known += [self.second.known] if self.second.is_running else []
        alive = tuple(sorted(each.own for each in known))
        for each in known:
            if each.alive != alive:
                yield f"{each.own} takes {', '.join(each.alive) or 'none'} for alive: {', '.join(alive)} are"

    def stop_second(self) -> None:
        """Kill the second cloudcore, if it runs."""
        if self.second is not None:
            self.second.stop()

    def opened(self, make: Callable[[], FailingDatabase]) -> FailingDatabase:
        """Open a database."""
        return make()

    def unacknowledged(self, node: str) -> int:
        """Return how many messages a node has not acknowledged; cloudhub repeats them."""
        return len(self._deliveries.get(node, ()))

    def find(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        """Return an object of the cloud, or None."""
        return self.newest.storage.find(ObjectKey(kind, namespace, name))

    def pods(self) -> list[JsonObject]:
        """Return all pods of the cloud."""
        return self.newest.storage.list(_POD)

    def pods_of(self, node: str) -> dict[str, JsonObject]:
        """Return a node's pods in the cloud, by uid."""
        return {
            pod["metadata"]["uid"]: pod for pod in self.newest.storage.list(_POD) if pod["spec"].get("nodeName") == node
        }

    def _synced(self) -> list[tuple[str, str]]:
        """Return uids of pods that nodes have or are to delete, with the nodes."""
        if not self._path.exists():
            return []
        with closing(sqlite3.connect(self._path)) as database:
            of_pods = "SELECT uid, node FROM cluster_syncs WHERE kind = 'Pod' AND version > ?"
            return database.execute(of_pods, (_DELETED,)).fetchall()

    def _left_over_records(self) -> Iterator[str]:
        """Yield the records of what honest nodes have, of objects that are gone: they have acknowledged all by then."""
        if not self._path.exists():
            return
        live = {uid_of(obj) for key in self.newest.storage if (obj := self.newest.storage.find(key)) is not None}
        with closing(sqlite3.connect(self._path)) as database:
            held = "SELECT uid, node, kind, name FROM cluster_syncs WHERE version > ?"
            for uid, node, kind, name in database.execute(held, (_DELETED,)):
                if uid not in live and node != self.hostile:
                    yield f"the record that {node} has {kind} {name} ({str(uid)[:8]}) is left over"

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.newest.storage.list(_POD)}

    def _ask(self, key: Key) -> None:
        if not self.serves_calls:
            return
        kind, name = key
        document = self.wanted[key]
        self._asked.add(key)
        self._call(self._command(kind, name, document), lambda answer: self._answered(key, document, answer))

    def _call(self, call: ApiCall, then: Callable[[ApiResult | BeehiveError], None]) -> None:
        """Make a call of a user or another writer."""
        assert self.process is not None  # noqa: S101 - `serves_calls`
        assert self.hive is not None  # noqa: S101 - as above
        self._ask_server(self.process, self.hive, call, then)

    @staticmethod
    def _ask_server(
        process: Process, hive: Hive, call: ApiCall, then: Callable[[ApiResult | BeehiveError], None]
    ) -> None:
        message = Message.new(
            process.clock,
            source=api_messages.SOURCE,
            resource=api_messages.RESOURCE,
            operation=Verb.CALL,
            content=call,
        )

        def answered(answer: Message | BeehiveError) -> None:
            then(answer if isinstance(answer, BeehiveError) else answer.content_as(ApiResult))

        hive.request_then(api_messages.MODULE, message, _ANSWER_WITHIN, answered)

    @staticmethod
    def _command(kind: str, name: str, document: JsonObject | None) -> ApiCall:
        known = known_kind(kind)
        of: dict[str, Any] = {"api_version": known.api_version, "plural": known.plural, "name": name}
        if known.namespaced:
            of["namespace"] = "default" if document is None else document["metadata"].get("namespace", "default")
        if document is None:
            return ApiCall(verb="delete", **of)
        return ApiCall(verb="patch", patch_type=APPLY, body=document, **of)

    def _answered(self, key: Key, document: JsonObject | None, answer: ApiResult | BeehiveError) -> None:
        self._asked.discard(key)
        if isinstance(answer, BeehiveError) or self.wanted[key] is not document:
            return
        refusal = answer.refusal
        if refusal is None or (document is None and refusal.get("code") == HTTPStatus.NOT_FOUND):
            self._unsettled.discard(key)

    def _make_listener(self, process: Process, deliver: Callable[[LinkEvent], None]) -> CloudListener:
        self._listener = CloudListener(self.endpoint, process, deliver, self.identities)
        return self._listener
