"""edgecontroller with the embedded API server on a hive, in virtual time, for tests."""

from functools import partial
from pathlib import Path
from typing import Any

from beehive.message import Message
from beehive.testing import Harness
from modules.apimachinery.kinds import Kind, ObjectKey, kind_called
from modules.apimachinery.lister import Lister
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.devicecontroller.definitions import definitions as device_definitions
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.messages import (
    ACKNOWLEDGED,
    ACKNOWLEDGED_RESOURCE,
    CLOUDCORES,
    CLOUDCORES_RESOURCE,
    HANDLED,
    NODES,
    Acknowledged,
    Cloudcores,
    ConnectEvent,
)
from modules.cloud.refusals import Refusals
from modules.cloud.router.definitions import definitions as rule_definitions
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from tests.modules.cloud.objects import in_memory

WEB = ObjectKey("Pod", "default", "web")
USES: dict[str, Any] = {
    "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    "imagePullSecrets": [{"name": "key"}],
}


def add_api_server(
    bee: Harness, cluster: Cluster, database: Database | None = None, manifests: Path | None = None
) -> RemoteCluster:
    """Add the embedded API server to a hive, and return it as its clients there reach it."""
    directory = ManifestDirectory(manifests, cluster) if manifests else None
    database = database or in_memory()
    completeness = Completeness(database, directory, cluster.storage)
    api = EmbeddedKubeApi(bee.hive, bee.clock)
    plane = ControlPlane(definitions=[*device_definitions(), *rule_definitions()])
    bee.add(ApiServer, cluster, database, directory, Refusals(bee.clock), api.subscriptions, control_plane=plane)
    return RemoteCluster(
        api.connect,
        knows_all=lambda: completeness.knows_all,
        known_since=lambda: completeness.known_since,
        is_embedded=True,
    )


def check_turn_is_over(bee: Harness, name: str) -> None:
    """Check that a module with nothing to do owes no answer and no commit, which would wait for its next message."""
    running = bee.hive.slot(name).running
    module = None if running is None else running.ref._actor_weakref()
    if isinstance(module, ApiServer | EdgeController):
        transactions = module._transactions
        assert not transactions._later, f"{name} has answers that wait for the end of a turn: call end_turn_soon"
        assert not transactions.is_under_way, f"{name} has a transaction that waits for the end of a turn"


class Controller:
    """edgecontroller and what a test does to it.

    Args:
        bee: the harness.
        manifests: a directory for the API server.
        database: the path of the common database, with the cloudcore's name; None for two in memory.
        nodes: nodes that connect immediately.
        lease: of this cloudcore.
    """

    def __init__(
        self,
        bee: Harness,
        manifests: Path | None = None,
        database: tuple[Path, str] | None = None,
        nodes: tuple[str, ...] = ("n1", "n2"),
        lease: LeaseSettings | None = None,
    ) -> None:
        self.bee = bee
        self.cluster = Cluster(bee.clock)
        path, name = (IN_MEMORY, "cloudcore") if database is None else (str(database[0]), database[1])
        self.objects = Database(path, name)
        """The API server's."""
        self.database = Database(path, name, stores_objects=False)
        """edgecontroller's."""
        remote = add_api_server(bee, self.cluster, self.objects, manifests)
        bee.add(EdgeController, remote, self.database, None, lease, None, NodeWatches())
        bee.checks_at_rest += [partial(check_turn_is_over, bee, each) for each in (ApiServer.name, EdgeController.name)]
        bee.start()
        self.links = 0
        for each in nodes:
            self.connected(each)

    def call(self, verb: str, word: str, name: str = "", namespace: str = "default", **fields: Any) -> ApiResult:
        """An administrator's request, as module `control` passes it on."""
        kind = kind_called(word)
        place = namespace if kind.namespaced else ""
        call = ApiCall(
            verb=verb, api_version=kind.api_version, plural=kind.plural, namespace=place, name=name, **fields
        )
        message = self.bee.message("cloudcore/objects", "call", call, source="control")
        result = self.bee.ask(ApiServer.name, message).content_as(ApiResult)
        self.bee.settle()
        return result

    def remove(self, word: str, name: str, grace: int | None = None) -> ApiResult:
        return self.call("delete", word, name, options={} if grace is None else {"gracePeriodSeconds": grace})

    def apply(self, *documents: Any) -> list[ApiResult]:
        results = []
        for document in documents:
            meta = document["metadata"]
            place = meta.get("namespace", "default")
            results.append(self.call("patch", document["kind"], meta["name"], place, patch_type=APPLY, body=document))
        return results

    def asks(self, resource: str, operation: str, content: Any = None, node_name: str = "n1") -> Message:
        """A request of an edge."""
        source = f"system:node:{node_name}"
        message = self.bee.message(f"node/{node_name}/{resource}", operation, content, source=source, group="meta")
        self.bee.send(EdgeController.name, message)
        return message

    def answer_to(self, request: Message) -> Message:
        (answer,) = [message for message in self.bee.sent_to("cloudhub") if message.parent_id == request.id]
        return answer

    def down(self, after: float = 0.0) -> list[str]:
        """What was sent to nodes unasked since the last look, when all that is due is done, and some seconds later."""
        self.pass_time(after)
        messages = self.unasked()
        self.bee.forget()
        return [f"{message.route.operation} {message.route.resource}" for message in messages]

    def unasked(self) -> list[Message]:
        """The same as messages."""
        sent = self.bee.sent_to("cloudhub")
        return [
            message for message in sent if not message.parent_id and message.route.operation not in (HANDLED, NODES)
        ]

    def handled(self) -> list[dict[str, int]]:
        """What cloudhub was told that has been handled, each time: an answer tells it of the message it answers."""
        found = list[dict[str, int]]()
        for message in self.bee.sent_to("cloudhub"):
            if message.route.operation == HANDLED:
                found.append(message.content_as(dict[str, int]))
            elif message.parent_id:
                found.append({message.subject_on_cloud.node: 1})
        return found

    def connected(self, node_name: str = "n1", seconds: float = 0.0) -> None:
        self.links += 1
        self.of_link("connected", self.links, node_name)
        self.pass_time(seconds)

    def of_link(self, what: str, link: int, node_name: str = "n1", at: int = 0, seconds: float = 0.0) -> None:
        """A connection begins or ends, at some seconds since 1970; edgecontroller gets to it as time passes."""
        event = ConnectEvent(what, at, node_name, f"link {link}")
        self.bee.hive.send(EdgeController.name, self.bee.message(f"node/{node_name}", what, event, source="cloudhub"))
        if seconds:
            self.bee.run_for(seconds)

    def pass_time(self, seconds: float) -> None:
        """Let happen what is due, and then time pass."""
        self.bee.settle()
        if seconds:
            self.bee.run_for(seconds)

    def cloudcores(self, node: str = "") -> Cloudcores:
        """The cloudcores that it knows to be alive, as module `control` asks, or the router about a node."""
        asked = self.bee.message(CLOUDCORES_RESOURCE, CLOUDCORES, node, source="control")
        return self.bee.ask(EdgeController.name, asked).content_as(Cloudcores)

    def database_fails(self, database: Database | None = None, *, loses_answer: bool = False) -> None:
        """The next transaction that commits is lost, or only its answer: edgecontroller's, or another database's."""
        target = database or self.database

        def fail(version: int) -> None:
            del target.commit
            if loses_answer:
                target.commit(version)
            raise DatabaseError("commit", f"version {version}", "the disk is full")

        target.commit = fail  # type: ignore[method-assign]

    def close(self) -> None:
        """Close the databases."""
        self.objects.close()
        self.database.close()

    def acknowledged(self, uid: str, version: int, node_name: str = "n1", *, is_delete: bool = False) -> None:
        """The node has acknowledged; edgecontroller gets to it with the next message, or as time passes."""
        content = [Acknowledged(node_name, uid, version, is_delete)]
        told = self.bee.message(ACKNOWLEDGED_RESOURCE, ACKNOWLEDGED, content, source="cloudhub")
        self.bee.hive.send(EdgeController.name, told)


class AllMirrored:
    """All kinds are mirrored, and all objects are whole (`MirroredObjects`)."""

    def mirrors(self, kind: str) -> bool:
        """Whether all objects of a kind are here."""
        return bool(kind)

    def mirror(self, kind: Kind) -> bool:
        """Whether a kind can be mirrored."""
        return bool(kind)

    def is_missing(self, key: ObjectKey) -> bool:
        """Whether only a part of an object is here."""
        return not key


def lone_downstream(lister: Lister, syncs: ObjectSyncs, mirrored: AllMirrored | None = None) -> DownstreamController:
    """One whose messages go nowhere; the API server has no pod that the lister lacks."""
    return DownstreamController(
        lister,
        syncs,
        lambda _down: None,
        lambda _node, _key: True,
        mirrored or AllMirrored(),
        NodeWatches(),
        confirm=lambda _key, _uid, then: then(),
        check=lambda _key, _uid: None,
    )
