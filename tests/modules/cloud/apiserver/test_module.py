"""The module apiserver alone on the bus, and its clients in the same process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pykka
import pytest
from sqlalchemy import Connection

from beehive.errors import RequestTimeoutError
from beehive.module import Module
from beehive.testing import Harness
from beehive.turns import Turns
from modules.apimachinery.kinds import ObjectKey, kind_called
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.api_messages import MODULE, RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.namespaces import SYSTEM
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.apiserver.volume_protection import FINALIZERS
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.client.calls import APPLY, MERGE, STRATEGIC, ApiCall, ApiCalls, ApiResult
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.lane_calls import CallAnswered, RequestLane
from modules.cloud.client.reflector.effects import Added, Deleted, Modified, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchQuery, WatchStart
from tests.modules.cloud.changes import RecordedChanges
from tests.modules.cloud.objects import SIGNING_REQUEST, configmap, in_memory, node, pod
from tests.support.presence import present

Json = dict[str, Any]


class Client(Module):
    """A module with a client of the API server."""

    name = "client"
    group = "client"

    def __init__(self, api: EmbeddedKubeApi, started: list[Client]) -> None:
        super().__init__()
        self._api = api
        self._started = started

    def on_start(self) -> None:
        self.client = KubeClient(self._api.connect(self.runtime), self, self.clock.random)
        self._started.append(self)

    def on_stop(self) -> None:
        self.client.close()


class Server:
    """The API server, and a client in its process."""

    def __init__(
        self, bee: Harness, database: Database | None = None, manifests: Path | None = None, *, collects: bool = True
    ) -> None:
        self.bee = bee
        self.cluster = Cluster(bee.clock)
        self.database = database or in_memory()
        self.refusals = Refusals(bee.clock)
        self.api = EmbeddedKubeApi(bee.hive, bee.clock)
        directory = ManifestDirectory(manifests, self.cluster) if manifests else None
        parts = self.cluster, self.database, directory, self.refusals, self.api.subscriptions
        self.index = RbacIndex()
        plane = ControlPlane(definitions=definitions(), collects=collects)
        bee.add(ApiServer, *parts, index=self.index, control_plane=plane)
        started: list[Client] = []
        bee.add(Client, self.api, started)
        bee.start()
        self._module = started[0]

    def call(self, verb: str, plural: str, name: str = "", **fields: Any) -> ApiResult:
        """A request of `control`."""
        place = {} if plural == "nodes" else {"namespace": "default"}
        call = ApiCall(**{"verb": verb, "api_version": "v1", "plural": plural, "name": name, **place, **fields})
        message = self.bee.message(RESOURCE, Verb.CALL, call, source=SOURCE)
        result = self.bee.ask(MODULE, message).content_as(ApiResult)
        self.bee.settle()
        return result

    def apply(self, obj: Json, plural: str) -> ApiResult:
        return self.call(
            "patch", plural, obj["metadata"]["name"], patch_type=APPLY, body=obj, options={"fieldManager": "people"}
        )

    @property
    def client(self) -> KubeClient:
        """The client in the same process, for the thread of its module."""
        return self._module.client

    def soon(self, work: Callable[[], None]) -> None:
        """Do work on that thread, and let all that follows happen."""
        self._module.call_soon(work)
        self.bee.settle()

    def asks(self, of_node: str = "", **fields: Any) -> ApiResult:
        """A request of the client in the same process, in its own name or a node's."""
        call = ApiCall(**{"api_version": "v1", **fields}, node=of_node)
        ends: list[Any] = []
        self._module.call_soon(lambda: self._module.client.call(RequestLane.QUERY, call, ends.append))
        self.bee.settle()
        (end,) = ends
        assert isinstance(end, CallAnswered), end
        return end.result

    def watch(self, plural: str) -> list[News]:
        """The client's events of a collection, from now on."""
        told: list[News] = []
        selection = Selection(kind=kind_called(plural))
        self._module.call_soon(lambda: self._module.client.watch(selection, told.append))
        self.bee.settle()
        return told


def shown(told: list[News]) -> list[tuple[str, str]]:
    """The changes among what a client was told."""
    return [(type(one).__name__, one.object.name) for one in told if isinstance(one, Added | Modified | Deleted)]


@pytest.fixture
def server(bee: Harness) -> Server:
    return Server(bee)


def test_a_change_reaches_the_watches_of_both_kinds_of_clients(server: Server) -> None:
    """The watches of HTTP clients, and watches in the same process."""
    of_client = server.api.subscriptions.subscribe("ConfigMap", of_client=True)
    server.apply(configmap("before"), "configmaps")
    told = server.watch("configmaps")
    assert [type(one) for one in told] == [Added, Synced]
    of_client.drain()
    server.apply(configmap("after", a="1"), "configmaps")
    server.call("delete", "configmaps", "before")
    assert shown(told) == [("Added", "before"), ("Added", "after"), ("Deleted", "before")]
    assert [change.change for change in of_client.drain()[0]] == ["ADDED", "DELETED"]
    of_client.close()


def test_a_list_in_parts_expires_after_some_minutes(server: Server, bee: Harness) -> None:
    """As with the compaction of etcd, and also where hardly anything changes."""
    for name in ("a", "b"):
        server.apply(configmap(name), "configmaps")
    first = present(server.call("list", "configmaps", options={"limit": 1}).object)
    server.apply(configmap("c"), "configmaps")
    options = {"continue": first["metadata"]["continue"]}
    bee.run_for(290.0)
    second = present(server.call("list", "configmaps", options=options).object)
    assert [each["metadata"]["name"] for each in second["items"]] == ["b"]
    bee.run_for(120.0)
    refusal = present(server.call("list", "configmaps", options=options).refusal)
    assert (refusal["code"], refusal["reason"], bool(refusal["metadata"]["continue"])) == (410, "Expired", True)


def test_a_lost_transaction_is_made_again_and_watches_go_on(bee: Harness) -> None:
    """The module restarts; what was not durable was told to nobody, and the client misses nothing."""
    bee.expect_failures()
    server = Server(bee)
    server.apply(configmap("before"), "configmaps")
    told = server.watch("configmaps")

    def fail(version: int) -> None:
        del server.database.commit
        raise DatabaseError("commit", f"version {version}", "the disk is full")

    server.database.commit = fail  # type: ignore[method-assign]
    assert server.apply(configmap("after"), "configmaps").refusal is None
    assert bee.hive.restarts()[MODULE] == 1
    bee.run_for(60.0)
    server.apply(configmap("last"), "configmaps")
    assert shown(told)[-2:] == [("Added", "after"), ("Added", "last")]
    assert shown(told).count(("Added", "after")) == 1


@pytest.mark.parametrize("metadata", [{"generateName": "made-"}, {"name": "made"}], ids=["any name", "one name"])
def test_a_creation_whose_commit_was_not_answered_makes_one_object(bee: Harness, metadata: Json) -> None:
    """The transaction seems to be lost, and the message is taken again."""
    bee.expect_failures()
    server = Server(bee)
    commit = server.database.commit

    def lose_the_answer(version: int) -> None:
        commit(version)
        del server.database.commit
        raise DatabaseError("commit", f"version {version}", "the connection is lost")

    server.database.commit = lose_the_answer  # type: ignore[method-assign]
    made = server.call("create", "configmaps", body={"metadata": metadata})
    assert (made.refusal, bee.hive.restarts()[MODULE]) == (None, 1)
    found = [key for key in server.cluster.storage if key.name.startswith("made")]
    assert made.object is not None
    assert [key.name for key in found] == [made.object["metadata"]["name"]]
    assert server.call("create", "configmaps", body={"metadata": {"name": found[0].name}}).refusal is not None


@pytest.mark.parametrize("verb", [Verb.CALL, Verb.CALLS])
def test_a_call_that_nobody_waits_for_any_more_is_not_made(bee: Harness, verb: Verb) -> None:
    """The database was away, and another cloudcore has had a newer command since (simulation, pair, seed 31020)."""
    bee.expect_failures()
    server = Server(bee)

    def fail(*_: object) -> None:
        raise DatabaseError("begin a transaction", "cloud.db", "the connection is lost")

    server.database.begin = fail  # type: ignore[assignment]
    body = configmap("late")
    call = ApiCall(verb="create", api_version="v1", plural="configmaps", namespace="default", body=body)
    content = call if verb is Verb.CALL else ApiCalls((call,))
    message = bee.message(RESOURCE, verb, content, source=SOURCE)
    asked = bee.future(MODULE, message, 5.0)
    bee.run_for(6.0)
    with pytest.raises(RequestTimeoutError):
        asked.get()
    del server.database.begin
    bee.run_for(120.0)
    assert server.call("get", "configmaps", "late").refusal is not None
    assert server.call("create", "configmaps", body=body).refusal is None


def test_a_binding_that_is_gone_after_a_restart_gives_no_rights(bee: Harness) -> None:
    """Its deletion's commit was not answered, or another cloudcore has deleted it in the meantime."""
    bee.expect_failures()
    server, group = Server(bee), "rbac.authorization.k8s.io"
    of_group: Json = {"api_version": f"{group}/v1", "namespace": ""}
    carol = {"kind": "User", "apiGroup": group, "name": "carol"}
    reference = {"kind": "ClusterRole", "apiGroup": group, "name": "view"}
    binding = {"metadata": {"name": "carol"}, "roleRef": reference, "subjects": [carol]}
    assert server.call("create", "clusterrolebindings", body=binding, **of_group).refusal is None
    asked = AccessRequest(verb="list", resource="pods")
    assert server.index.allowed(User("carol"), asked) is not None
    commit = server.database.commit

    def lose_the_answer(version: int) -> None:
        commit(version)
        del server.database.commit
        raise DatabaseError("commit", f"version {version}", "the connection is lost")

    server.database.commit = lose_the_answer  # type: ignore[method-assign]
    server.call("delete", "clusterrolebindings", "carol", **of_group)
    assert bee.hive.restarts()[MODULE] == 1
    assert server.index.allowed(User("carol"), asked) is None


def test_a_pod_gets_the_node_that_registers_in_the_same_transaction(server: Server) -> None:
    waiting = pod("web")
    del waiting["spec"]["nodeName"]
    server.apply(waiting, "pods")
    assert "nodeName" not in server.call("get", "pods", "web").object["spec"]  # type: ignore[index]
    told = server.watch("pods")
    server.call("create", "nodes", body={"apiVersion": "v1", "kind": "Node", **node("n1")})
    assert server.call("get", "pods", "web").object["spec"]["nodeName"] == "n1"  # type: ignore[index]
    assert shown(told)[-1] == ("Modified", "web")


def test_a_client_in_the_process_is_an_administrator_and_can_be_a_node(server: Server) -> None:
    """In a node's name it has the node's rights, refusals are counted, and the node's reviews agree with them."""
    server.apply(configmap("foreign"), "configmaps")
    place: Json = {"plural": "configmaps", "namespace": "default", "name": "foreign"}
    assert server.asks(verb="get", **place).object is not None
    assert present(server.asks(of_node="n1", verb="get", **place).refusal)["code"] == 403
    assert sum(server.refusals.counts.values()) == 1
    asked = {"verb": "get", "resource": "configmaps", "namespace": "default", "name": "foreign"}
    group = "authorization.k8s.io/v1"
    body = {"kind": "SelfSubjectAccessReview", "apiVersion": group, "spec": {"resourceAttributes": asked}}
    review: Json = {"verb": "create", "api_version": group, "plural": "selfsubjectaccessreviews", "body": body}
    answered = server.asks(of_node="n1", **review)
    assert answered.object is not None, answered
    assert answered.object["status"]["allowed"] is False


def test_a_node_has_a_hundred_certificate_signing_requests(server: Server) -> None:
    """Others do not count: another node, and an administrator, may make some all the same."""
    requests: Json = {"api_version": "certificates.k8s.io/v1", "plural": "certificatesigningrequests"}
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/serving", "usages": ["server auth"]}

    def ask(node: str, name: str) -> int:
        wanted = {"metadata": {"name": name}, "spec": {**spec, "username": f"system:node:{node}"}}
        result = server.asks(of_node=node, verb="create", body=wanted, **requests)
        return 0 if result.refusal is None else int(result.refusal["code"])

    assert [ask("n1", f"a{number}") for number in range(101)] == [0] * 100 + [403]
    assert ask("n2", "b") == 0
    removed = server.asks(verb="delete", name="a0", **requests)
    assert removed.refusal is None
    assert ask("n1", "c") == 0


@pytest.mark.parametrize("has_manifests", [False, True])
def test_a_nodes_list_marks_whether_all_objects_are_known(bee: Harness, tmp_path: Path, *, has_manifests: bool) -> None:
    """A new database may replace a lost one; a directory of manifests has all wanted objects."""
    (tmp_path / "one.json").write_bytes(msgspec.json.encode(configmap("one")))
    server = Server(bee, manifests=tmp_path if has_manifests else None)
    selector = {"fieldSelector": "spec.nodeName=n1"}
    found = present(server.asks(of_node="n1", verb="list", plural="pods", options=selector).object)
    assert ("remainingItemCount" in found["metadata"]) is not has_manifests
    storage = server.cluster.storage
    since = {"creationTimestamp": "2027-01-15T08:00:00Z", "resourceVersion": str(storage.first_version)}
    assert found["metadata"].get("knownSince") == (None if has_manifests else since)


def test_a_dry_run_changes_nothing_and_a_failure_is_answered(server: Server, bee: Harness) -> None:
    tried = server.call("create", "configmaps", body=configmap("tried"), options={"dryRun": ["All"]})
    assert tried.object is not None
    assert "resourceVersion" not in tried.object["metadata"]
    assert server.cluster.storage.find(ObjectKey("ConfigMap", "default", "tried")) is None
    unread = bee.ask(MODULE, bee.message(RESOURCE, Verb.CALL, {"verb": 1}, source=SOURCE)).content_as(ApiResult)
    assert unread.refusal is not None
    assert unread.refusal["code"] == 400
    query = bee.message(RESOURCE, Verb.WATCH, WatchQuery("ConfigMap", 10**9), source=SOURCE)
    start = bee.ask(MODULE, query).content_as(WatchStart)
    assert start.refusal is not None
    assert start.refusal["code"] == 410


def test_a_definition_that_a_person_has_made_otherwise_stops_nothing(bee: Harness, tmp_path: Path) -> None:
    """The definitions are there from the start; a failure to apply one is only a line in the log."""
    path = str(tmp_path / "cloud.db")
    plural = {"plural": "customresourcedefinitions", "api_version": "apiextensions.k8s.io/v1", "namespace": ""}
    name = definitions()[0]["metadata"]["name"]
    with Harness() as first:
        server = Server(first, Database(path, "a"))
        live = present(server.call("get", name=name, **plural).object)
        live["spec"]["scope"] = "Cluster"
        server.cluster.storage.replace(live)
        server.apply(configmap("one"), "configmaps")
        server.database.close()
    server = Server(bee, Database(path, "b"))
    assert server.call("get", "configmaps", "one").object is not None
    assert server.call("get", name=name, **plural).object is not None
    server.database.close()


def test_a_volume_is_released_when_its_claim_is_deleted(server: Server) -> None:
    """And a claim is lost when its volume is, until there is such a volume again."""

    def phase(plural: str) -> str:
        return str((server.call("get", plural, "data").object or {})["status"]["phase"])

    amount = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": amount, "hostPath": {"path": "/mnt"}}
    disk = {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": "data"}, "spec": spec}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": amount}, "volumeName": "data"}
    claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data"}, "spec": wanted}
    server.apply(disk, "persistentvolumes")
    assert phase("persistentvolumes") == "Available"
    server.apply(claim, "persistentvolumeclaims")
    assert (phase("persistentvolumes"), phase("persistentvolumeclaims")) == ("Bound", "Bound")
    server.call("delete", "persistentvolumes", "data")
    assert phase("persistentvolumeclaims") == "Lost"
    server.apply(disk, "persistentvolumes")
    assert (phase("persistentvolumes"), phase("persistentvolumeclaims")) == ("Bound", "Bound")
    server.call("delete", "persistentvolumeclaims", "data")
    assert phase("persistentvolumes") == "Released"


@pytest.mark.parametrize("collects", [True, False], ids=["own controllers", "other controllers"])
def test_a_claim_in_use_goes_with_its_last_pod_and_then_its_volume(bee: Harness, *, collects: bool) -> None:
    """As "PV Protection" and "PVC Protection" of Kubernetes' end-to-end tests; beside its own controllers both stay."""

    def is_there(plural: str, name: str = "data") -> bool:
        return made.call("get", plural, name).object is not None

    made = Server(bee, collects=collects)
    amount = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": amount, "hostPath": {"path": "/mnt"}}
    kept = [
        {"name": "data", "finalizers": [FINALIZERS[kind]]} for kind in ("PersistentVolume", "PersistentVolumeClaim")
    ]
    made.apply({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": kept[0], "spec": spec}, "persistentvolumes")
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": amount}, "volumeName": "data"}
    made.apply(
        {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": kept[1], "spec": wanted},
        "persistentvolumeclaims",
    )
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    made.apply(pod("user", nodeName="n1", volumes=mounted), "pods")
    made.apply(pod("waiting", nodeName="", volumes=mounted), "pods")
    made.call("delete", "persistentvolumes", "data")
    made.call("delete", "persistentvolumeclaims", "data")
    assert (is_there("persistentvolumes"), is_there("persistentvolumeclaims")) == (True, True)
    made.call("delete", "pods", "user", options={"gracePeriodSeconds": 0})
    there = not collects
    assert (is_there("persistentvolumes"), is_there("persistentvolumeclaims")) == (there, there)


@pytest.mark.parametrize(
    ("plural", "name", "change"),
    [
        ("resourcequotas", "all", {"status": {"hard": {"cpu": "1"}, "used": {"pods": "7"}}}),
        ("resourcequotas", "all", {"status": None}),
        ("persistentvolumes", "data", {"status": {"phase": "Failed"}}),
        ("persistentvolumeclaims", "data", {"status": {"phase": "Pending"}}),
        ("persistentvolumeclaims", "data", {"status": {"phase": "Lost"}}),
        ("serviceaccounts", "default", None),
        ("nodes", "n1", {"spec": {"taints": None}}),
        ("nodes", "n1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ],
)
def test_what_the_api_server_has_written_is_restored(
    server: Server, plural: str, name: str, change: dict[str, Any] | None
) -> None:
    """Whoever writes over it, or deletes it: at once, or with the next look at the leases of nodes."""
    amount = {"storage": "1Gi"}
    disk = {"accessModes": ["ReadWriteOnce"], "capacity": amount, "hostPath": {"path": "/mnt"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": amount}, "storageClassName": ""}
    made: dict[str, Json] = {
        "namespaces": {"metadata": {"name": "default"}},
        "persistentvolumes": {"metadata": {"name": "data"}, "spec": disk},
        "persistentvolumeclaims": {"metadata": {"name": "data"}, "spec": claim},
        "resourcequotas": {"metadata": {"name": "all"}, "spec": {"hard": {"pods": "5"}}},
        "nodes": {**node(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    }
    for each, body in made.items():
        server.call("create", each, body=body)
    server.call("create", "leases", api_version="coordination.k8s.io/v1", namespace="kube-node-lease",
                body={"metadata": {"name": "n1"}, "spec": {}})  # fmt: skip
    server.bee.run_for(60.0)

    def found() -> tuple[list[Json], Json, Json]:
        obj = server.call("get", plural, name).object or {}
        taints = [{**each, "timeAdded": ""} for each in (obj.get("spec") or {}).get("taints") or ()]
        status = obj.get("status") or {}
        conditions = [each["status"] for each in status.get("conditions") or ()]
        return taints, {**status, "conditions": conditions}, obj["metadata"]

    *before, written = found()
    if change is None:
        assert server.call("delete", plural, name).refusal is None
    else:
        of = "status" if "status" in change else ""
        assert server.call("patch", plural, name, patch_type=MERGE, subresource=of, body=change).refusal is None
    server.bee.run_for(10.0)
    *after, metadata = found()
    assert after == before
    assert metadata["resourceVersion"] != written["resourceVersion"], "it was written over"


def accounts(server: Server) -> list[str]:
    """The namespaces with a service account `default`, without the API server's own."""
    found = present(server.call("list", "serviceaccounts", namespace="").object)
    accounts = [one["metadata"] for one in found["items"] if one["metadata"]["name"] == "default"]
    return [one["namespace"] for one in accounts if one["namespace"] not in SYSTEM]


def namespaces(server: Server) -> list[str]:
    """The names of the namespaces."""
    return [one["metadata"]["name"] for one in present(server.call("list", "namespaces", namespace="").object)["items"]]


def test_the_namespaces_of_an_api_server_are_there_from_the_start(server: Server) -> None:
    """With a service account each; active, and with the label of their name."""
    assert namespaces(server) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    default = present(server.call("get", "namespaces", "default", namespace="").object)
    assert default["status"] == {"phase": "Active"}
    assert default["spec"] == {"finalizers": ["kubernetes"]}
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    found = present(server.call("list", "serviceaccounts", namespace="").object)
    assert [one["metadata"]["namespace"] for one in found["items"]] == namespaces(server)


@pytest.mark.parametrize("name", ["default", "kube-public", "kube-system"])
def test_a_namespace_that_every_cluster_has_is_not_deleted(server: Server, name: str) -> None:
    refusal = present(server.call("delete", "namespaces", name, namespace="").refusal)
    assert (refusal["code"], refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert name in namespaces(server)


def test_a_deleted_namespace_of_leases_is_made_at_the_next_start(server: Server) -> None:
    server.call("delete", "namespaces", "kube-node-lease", namespace="")
    assert "kube-node-lease" not in namespaces(server)
    make_system_objects(server.cluster)
    assert "kube-node-lease" in namespaces(server)


def test_a_manifest_that_is_gone_leaves_the_namespace_default(bee: Harness, tmp_path: Path) -> None:
    manifest = tmp_path / "default.yaml"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
    server = Server(bee, manifests=tmp_path)
    manifest.unlink()
    bee.run_for(5.0)
    assert "default" in namespaces(server)


def test_each_namespace_has_a_service_account(server: Server) -> None:
    """Made with it, also a second time, and deleted with it; a dry run makes no account."""
    told = server.watch("serviceaccounts")
    blue = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}}
    server.call("create", "namespaces", namespace="", body=blue, options={"dryRun": ["All"]})
    assert accounts(server) == []
    server.call("create", "namespaces", namespace="", body=blue)
    assert accounts(server) == ["blue"]
    server.call("delete", "serviceaccounts", "default", namespace="blue")
    assert accounts(server) == ["blue"]
    assert shown(told)[-3:] == [("Added", "default"), ("Deleted", "default"), ("Added", "default")]
    server.call("delete", "namespaces", "blue", namespace="")
    assert accounts(server) == []
    server.call("create", "serviceaccounts", body={**blue, "kind": "ServiceAccount"})
    server.call("delete", "serviceaccounts", "blue")
    assert accounts(server) == []


def test_namespaces_of_an_existing_database_get_their_service_account(bee: Harness, tmp_path: Path) -> None:
    """Of a version that made none; an account that is there stays as it is."""
    before, cluster = Database(str(tmp_path / "cloud.db"), "a"), Cluster(bee.clock)
    transactions = Transactions(cluster.storage, before, RecordedChanges())
    transactions.begin()
    for name in ("blue", "red"):
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    metadata = {"name": "default", "namespace": "red", "labels": {"kept": "yes"}}
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    transactions.commit()
    before.close()
    server = Server(bee, Database(str(tmp_path / "cloud.db"), "b"))
    assert accounts(server) == ["blue", "red"]
    kept = present(server.call("get", "serviceaccounts", "default", namespace="red").object)
    assert kept["metadata"]["labels"] == {"kept": "yes"}
    server.database.close()


def test_a_database_that_a_node_has_filled_starts_without_the_surplus(bee: Harness, tmp_path: Path) -> None:
    """An earlier version let a node create any number of mirror pods; their rows go with the first start."""
    before, cluster = Database(str(tmp_path / "cloud.db"), "a"), Cluster(bee.clock)
    transactions = Transactions(cluster.storage, before, RecordedChanges())
    transactions.begin()
    for number in range(4):
        mirrored = pod(f"mirror-{number}", nodeName="n1")
        mirrored["metadata"]["annotations"] = {CONFIG_MIRROR: "x", "a": "x" * 1_000_000}
        cluster.storage.create(mirrored)
    transactions.commit()
    before.close()
    server = Server(bee, Database(str(tmp_path / "cloud.db"), "b"))
    listed = present(server.call("list", "pods", namespace="").object)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["mirror-0"]
    server.database.close()
    after = Database(str(tmp_path / "cloud.db"), "c")
    assert [key.name for key, _ in present(after.begin()).objects if key.kind == "Pod"] == ["mirror-0"]
    after.close()


class SlowDatabase(Database):
    """Needs a second of virtual time for each object that it reads."""

    bee: Harness

    def _changed_objects(self, connection: Connection, *, complete: bool) -> Iterator[Any]:
        for row in super()._changed_objects(connection, complete=complete):
            with pytest.raises(pykka.Timeout):
                self.bee.simulation.future().get(timeout=1.0)
            yield row


def test_a_start_with_many_objects_may_take_longer_than_the_hive_waits_for_a_silent_module(
    bee: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100,000 pods on a busy machine the API server was given up after 30 s, and cloudcore never started."""
    monkeypatch.setattr("modules.cloud.storage.database.database._PORTION", 10)
    path = str(tmp_path / "cloud.db")
    with Harness() as first:
        server = Server(first, Database(path, "a"))
        for number in range(40):
            server.apply(configmap(f"c{number}"), "configmaps")
        server.database.close()
    database = SlowDatabase(path, "b")
    database.bee = bee
    server = Server(bee, database)
    assert bee.clock.monotonic() > 40
    assert server.call("get", "configmaps", "c39").object is not None
    database.close()


def test_modules_that_share_a_database_take_turns(tmp_path: Path) -> None:
    """A transaction ends the turn however it ends; SQLite's lock is never waited for."""
    turn = Turns()
    objects = Database(str(tmp_path / "cloud.db"), "a", turn=turn)
    states = Database(str(tmp_path / "cloud.db"), "a", stores_objects=False, turn=turn)
    ends: list[Callable[[], None]] = [objects.abandon, objects.close, lambda: objects.commit(1)]
    for end in ends:
        objects.begin()
        assert turn.locked()
        end()
        assert not turn.locked()
        states.begin()
        states.commit(1)
        assert not turn.locked()
    objects.close()
    states.close()


def test_a_node_under_pressure_gets_no_pods_and_has_the_taint_until_that_is_over(server: Server) -> None:
    """Its taint is there before the first pod is placed; the pod that waits gets the node when the pressure ends."""
    pressing = {"type": "DiskPressure", "status": "True"}
    server.call("create", "nodes", body={**node(), "status": {"conditions": [pressing]}})
    made = server.apply({**pod("p"), "spec": {"containers": pod()["spec"]["containers"]}}, "pods")
    assert "untolerated taint {node.kubernetes.io/disk-pressure: }" in made.warnings[0]
    patch = {"status": {"conditions": [{**pressing, "status": "False"}]}}
    server.call("patch", "nodes", "n1", subresource="status", patch_type=STRATEGIC, body=patch)
    assert present(server.call("get", "pods", "p").object)["spec"]["nodeName"] == "n1"


def test_a_silent_node_is_not_ready_and_a_deleted_pod_without_a_node_goes(server: Server) -> None:
    ready = {"type": "Ready", "status": "True"}
    server.call("create", "nodes", body={**node(), "status": {"conditions": [ready]}})
    server.call("create", "leases", api_version="coordination.k8s.io/v1", namespace="kube-node-lease",
                body={"metadata": {"name": "n1"}, "spec": {}})  # fmt: skip
    server.apply(pod("lost", nodeName="nowhere"), "pods")
    server.call("delete", "pods", "lost")
    server.bee.run_for(6.0)
    assert (server.call("get", "pods", "lost").refusal or {})["code"] == 404
    server.bee.run_for(40.0)
    assert present(server.call("get", "nodes", "n1").object)["status"]["conditions"][0]["status"] == "Unknown"
    events = present(server.call("list", "events").object)
    assert [event["reason"] for event in events["items"]] == ["RegisteredNode", "NodeNotReady"]


def owned(owner: Json | None) -> Json:
    """A configmap with an owner."""
    assert owner is not None
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    return {**configmap("child"), "metadata": {"name": "child", "ownerReferences": [named]}}


@pytest.mark.parametrize("collects", [True, False])
def test_dependents_go_in_the_transaction_of_their_owners_deletion(bee: Harness, *, collects: bool) -> None:
    """Unless that is left to Kubernetes' own controllers; then nobody else does it, and a namespace waits for them."""
    server = Server(bee, collects=collects)
    told = server.watch("configmaps")
    server.call("create", "configmaps", body=owned(server.call("create", "configmaps", body=configmap("owner")).object))
    server.call("delete", "configmaps", "owner")
    gone = [("Deleted", "owner"), ("Deleted", "child")] if collects else [("Deleted", "owner")]
    assert shown(told)[2:] == gone
    server.call("create", "namespaces", namespace="", body={**configmap("blue"), "kind": "Namespace", "data": None})
    server.call("delete", "namespaces", "blue", namespace="")
    assert ("blue" in namespaces(server)) is not collects


def test_what_follows_from_a_deletion_is_done_after_a_restart(bee: Harness, tmp_path: Path) -> None:
    """The process may have ended before, or the owner may have been deleted by an earlier version."""
    before, cluster = Database(str(tmp_path / "cloud.db"), "a"), Cluster(bee.clock)
    transactions = Transactions(cluster.storage, before, RecordedChanges())
    transactions.begin()
    owner = cluster.create(configmap("owner"))
    cluster.create(owned(owner))
    cluster.delete(ObjectKey("ConfigMap", "default", "owner"))
    transactions.commit()
    before.close()
    server = Server(bee, Database(str(tmp_path / "cloud.db"), "b"))
    assert server.call("get", "configmaps", "child").refusal


@pytest.mark.parametrize(
    ("verb", "plural", "group", "body", "more"),
    [
        ("patch", "pods", "", pod("web"), {"patch_type": APPLY, "options": {"fieldManager": "k"}}),
        ("update", "leases", "coordination.k8s.io", {"metadata": {"name": "web"}, "spec": {}},
         {"api_version": "coordination.k8s.io/v1", "options": {"fieldManager": ""}}),
    ],
    ids=["apply", "update"],
)  # fmt: skip
def test_it_creates_with_the_right_to_create_only(
    bee: Harness, verb: str, plural: str, group: str, body: Json, more: dict[str, Any]
) -> None:
    """Who may patch pods could otherwise make some, with any service account of the namespace."""
    server, rbac = Server(bee), "rbac.authorization.k8s.io"
    rule = {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
    role = {"metadata": {"name": "r"}, "rules": [rule]}
    carol = {"kind": "User", "apiGroup": rbac, "name": "carol"}
    binding = {"metadata": {"name": "b"}, "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "r"}}
    server.call("create", "roles", api_version=f"{rbac}/v1", body=role)
    server.call("create", "rolebindings", api_version=f"{rbac}/v1", body={**binding, "subjects": [carol]})

    def refusal() -> Json | None:
        return server.call(verb, plural, "web", body=body, user="carol", **more).refusal

    refused = present(refusal())
    assert (refused["code"], "cannot create resource" in refused["message"]) == (403, True)
    changed = {**role, "rules": [{**rule, "verbs": [verb, "create"]}]}
    server.call("update", "roles", "r", api_version=f"{rbac}/v1", body=changed)
    assert refusal() is None
    if verb == "patch":
        server.call("update", "roles", "r", api_version=f"{rbac}/v1", body=role)
        assert refusal() is None


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize(
    ("who", "told"),
    [
        ({"user": "carol", "groups": ("shop",)}, {"username": "carol", "groups": ["shop"]}),
        ({"user": "carol", "groups": ("shop",), "uid": "7", "extra": (("floor", ("2", "3")),)},
         {"username": "carol", "groups": ["shop"], "uid": "7", "extra": {"floor": ["2", "3"]}}),
        ({"node": "n1"}, {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}),
        ({"author": "root", "groups": ("system:masters",)}, {"username": "root", "groups": ["system:masters"]}),
    ],
)  # fmt: skip
def test_a_certificate_request_names_who_has_made_it(
    bee: Harness, verb: str, who: dict[str, Any], told: dict[str, Any]
) -> None:
    """Kubernetes' controller approves by the rights of this user, whom the body invents."""
    server, api = Server(bee), "certificates.k8s.io/v1"
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}
    rbac = "rbac.authorization.k8s.io"
    role: Json = {"metadata": {"name": "r"}, "rules": [rule]}
    binding: Json = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": rbac, "name": "carol"}],
    }
    server.call("create", "clusterroles", api_version=f"{rbac}/v1", body=role)
    server.call("create", "clusterrolebindings", api_version=f"{rbac}/v1", body=binding)
    forged = {"username": "system:node:n2", "uid": "1", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"]}
    named = {"apiVersion": api, "kind": "CertificateSigningRequest"}
    wanted = {**named, "metadata": {"name": "a"}, "spec": {**spec, **forged}}
    options: dict[str, Any] = {"patch_type": APPLY, "options": {"fieldManager": "k"}} if verb == "patch" else {}
    of_one = "a" if verb == "patch" else ""
    made = server.call(verb, "certificatesigningrequests", of_one, api_version=api, body=wanted, **options, **who)
    if verb == "patch" and "node" in who:
        assert made.refusal is not None
        return
    assert made.object is not None, made.refusal
    assert made.object["spec"] == {**spec, **told}


def test_pods_that_wait_are_placed_in_parts_and_all_of_them(server: Server, bee: Harness) -> None:
    """A change of one node made the API server look at all nodes for all pods, for seconds; now others have turns."""
    for number in range(30):
        server.call("create", "nodes", body=node(f"n{number}"))
    parts: list[int] = []
    place = server.cluster.scheduler.place_waiting_pods

    def counted() -> None:
        before = len(server.cluster.storage.pods_of(""))
        place()
        parts.append(before - len(server.cluster.storage.pods_of("")))

    server.cluster.scheduler.place_waiting_pods = counted  # type: ignore[method-assign]
    term = {"topologyKey": "none", "labelSelector": {}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(50):
        body = pod(f"p{number}", nodeName="", nodeSelector={"kind": "fast"}, affinity=rule)
        server.call("create", "pods", body=body)
    assert len(server.cluster.storage.pods_of("")) == 50
    parts.clear()
    labels = [{"op": "add", "path": "/metadata/labels", "value": {"kind": "fast"}}]
    server.call("patch", "nodes", "n7", patch_type="application/json-patch+json", body=labels)
    bee.settle()
    assert not server.cluster.storage.pods_of("")
    assert [each for each in parts if each] == [20, 20, 10]
