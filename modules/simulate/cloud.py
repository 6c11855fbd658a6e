"""The simulated cloud: the stub's modules in a process that may be started anew, with or without its objects."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.message import Message
from beehive.names import ModuleName
from modules.cloudhub.deliveries import NodeDeliveries
from modules.cloudhub.link import LinkEvent
from modules.cloudhub.module import CloudHub, CloudHubSettings
from modules.dynamiccontroller.module import DynamicController
from modules.edgecontroller import commands
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.commands import Verb
from modules.edgecontroller.database.database import Database
from modules.edgecontroller.kinds import JsonObject, ObjectKey, kind_named
from modules.edgecontroller.module import EdgeController
from modules.simulate.cloud_store import WatchedStore
from modules.simulate.network import Cloud, Door
from modules.simulate.plan import Write, Writer
from modules.simulate.status_watch import StatusWatch
from modules.simulate.world import Process, Wall, World
from modules.simulate.writers import OF_NODES, OF_STATUS, call_of

Key = tuple[str, str]
"""Kind and name; all objects are in namespace `default`."""
_ANSWER_WITHIN = 30.0
_POD = kind_named("Pod")


class SimulatedCloud:
    """See the module's docstring.

    Args:
        world: where it is.
        root: a directory of its own.
        statuses: told of the statuses that pods have.
        first_version: see `Plan.first_version`.
    """

    def __init__(self, world: World, root: Path, statuses: StatusWatch, first_version: int = 0) -> None:
        self.world = world
        self._statuses = statuses
        self._first_version = first_version
        self.lines = Cloud()
        self.wanted: dict[Key, JsonObject | None] = {}
        """What people want, by kind and name; None: that it goes."""
        self._forgotten: set[str] = set()
        self._forgotten_with_nodes: set[str] = set()
        self._unsettled: set[Key] = set()
        self._asked: set[Key] = set()
        self._path = root / "cloud.db"
        self._wall = Wall()
        self._life = 0
        self.process: Process | None = None
        self.hive: Hive | None = None
        self.cluster: Cluster
        self._database: Database | None = None
        self._door: Door | None = None
        self._deliveries: dict[str, NodeDeliveries] = {}
        root.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start the process."""
        self._life += 1
        process = self.process = Process(self.world, "cloud", self._wall, self._life)
        clock = process.clock
        self.cluster = Cluster(clock)
        self.cluster.store = WatchedStore(clock, self._next_version(clock), self._statuses.stored)
        self._database = Database(str(self._path), f"cloud-{self._life}", durable=False, shared=False)
        if not self._database.is_new:
            self._forgotten_with_nodes.clear()
        hive = self.hive = Hive(process)
        self._deliveries = {}
        hive.add(CloudHub, CloudHubSettings(), lambda deliver: self._make_door(process, deliver), self._deliveries)
        hive.add(EdgeController, self.cluster, self._database)
        hive.add(DynamicController)
        self.world.note("cloud", f"life {self._life} begins")
        process.run(hive.start)

    def _next_version(self, clock: Clock) -> int:
        """A cloud that has lost its objects goes on counting above what nodes have seen."""
        return self._first_version or int(clock.now())

    def write(self, write: Write) -> None:
        """Somebody else writes into a pod or a Node object; what comes of it nobody waits for."""
        process, hive = self.process, self.hive
        kind, namespace = ("Node", "") if write.writer in OF_NODES else ("Pod", "default")
        obj = self.find(kind, namespace, write.name) if hive is not None else None
        if process is None or hive is None or obj is None:
            return
        if write.writer in OF_STATUS:
            self._statuses.others_wrote(obj)
        if write.writer is Writer.NODE_DELETED:
            self._delete_node(write.name)
        message = Message.new(
            process.clock,
            source=commands.SOURCE,
            resource=commands.RESOURCE,
            operation=Verb.CALL,
            content=call_of(write),
        )
        hive.request_then(ModuleName.EDGECONTROLLER, message, _ANSWER_WITHIN, lambda _answer: None)

    def _delete_node(self, node: str) -> None:
        """A node that is deleted is sent away, and may come again; what it has is forgotten (KubeEdge's ObjectSyncs go
        with their node).
        """
        self._forgotten_with_nodes |= self.pods_of(node).keys() | {uid for uid, its in self._synced() if its == node}
        for connection in self._door.connections if self._door is not None else ():
            if connection.line.node == node:
                connection.may_end()

    def stop(self) -> None:
        """End the process, without a word."""
        if self.process is not None and self._first_version:
            self._first_version = self.cluster.store.version
        process, self.process, self.hive = self.process, None, None
        if process is not None:
            process.kill()
        self.lines.door = None
        if self._door is not None:
            for connection in list(self._door.connections):
                connection.close_from_cloud()
        if self._database is not None:
            self._database.close()
        self._asked.clear()

    @property
    def forgotten(self) -> set[str]:
        """Uids of pods that a node may never hear the end of: those that the cloud had, or had to tell of their
        deletion, when it lost its memory; and with a node that was deleted, what that had, for a cloud whose database
        is new does not say of its lists that they are complete.
        """
        return self._forgotten | self._forgotten_with_nodes

    def forget(self) -> None:
        """Lose all objects, while it is stopped; people will want them again."""
        self._forgotten |= self._uids() | {uid for uid, _ in self._synced()}
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._unsettled.update(key for key, document in self.wanted.items() if document is not None)

    def want(self, kind: str, name: str, document: JsonObject | None) -> None:
        """Somebody wants an object like this, or not at all; it is tried until the cloud takes it."""
        self.wanted[kind, name] = document
        self._unsettled.add((kind, name))
        if (kind, name) not in self._asked:
            self._ask((kind, name))

    def reconcile(self) -> None:
        """Try again what the cloud has not taken; called now and then."""
        for key in sorted(self._unsettled - self._asked):
            self._ask(key)

    def settled(self) -> bool:
        """Whether the cloud has taken all that is wanted."""
        return not self._unsettled

    def taken(self) -> set[Key]:
        """What people want and the cloud has taken."""
        return {key for key, document in self.wanted.items() if document is not None and key not in self._unsettled}

    def unacknowledged(self, node: str) -> int:
        """How many messages to a node are sent again and again, because it has not acknowledged them."""
        return len(self._deliveries.get(node, ()))

    def find(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        """An object as the cloud has it."""
        return self.cluster.store.find(ObjectKey(kind, namespace, name))

    def pods(self) -> list[JsonObject]:
        """All pods as the cloud has them."""
        return self.cluster.list(_POD)

    def pods_of(self, node: str) -> dict[str, JsonObject]:
        """The pods of a node as the cloud has them, by uid."""
        return {pod["metadata"]["uid"]: pod for pod in self.cluster.list(_POD) if pod["spec"].get("nodeName") == node}

    def _synced(self) -> list[tuple[str, str]]:
        """Uids of pods that nodes have, or are to delete, and those nodes."""
        if not self._path.exists():
            return []
        with closing(sqlite3.connect(self._path)) as database:
            return database.execute("SELECT uid, node FROM cluster_syncs WHERE kind = 'Pod'").fetchall()

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.cluster.list(_POD)}

    def _ask(self, key: Key) -> None:
        if self.hive is None:
            return
        kind, name = key
        document = self.wanted[key]
        message = self._command(kind, name, document)
        self._asked.add(key)
        self.hive.request_then(
            ModuleName.EDGECONTROLLER, message, _ANSWER_WITHIN, lambda answer: self._answered(key, document, answer)
        )

    def _command(self, kind: str, name: str, document: JsonObject | None) -> Message:
        content: Any = commands.Delete(kind.lower(), name) if document is None else commands.Apply([document])
        verb = Verb.DELETE if document is None else Verb.APPLY
        assert self.process is not None  # noqa: S101 - the caller has seen the hive
        return Message.new(
            self.process.clock, source=commands.SOURCE, resource=commands.RESOURCE, operation=verb, content=content
        )

    def _answered(self, key: Key, document: JsonObject | None, answer: Message | BeehiveError) -> None:
        self._asked.discard(key)
        if isinstance(answer, BeehiveError) or self.wanted[key] is not document:
            return
        items = answer.content_as(commands.Result).items
        errors = [item.error for item in items if item.error]
        if not errors or (document is None and "not found" in errors[0]):
            self._unsettled.discard(key)

    def _make_door(self, process: Process, deliver: Callable[[LinkEvent], None]) -> Door:
        self._door = Door(self.lines, process, deliver)
        return self._door
