"""What an API server has in memory is what a fresh load of its database finds, whatever becomes of its transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named, uid_of, version_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.full_disk import FULL_SECONDS
from modules.cloud.apiserver.kubernetes_service import KubernetesService
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import APPLY, ApiCall
from modules.cloud.refusals import Refusals
from modules.cloud.storage import past_states, watch_history
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.past_states import ForgottenError
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import ObjectChanged
from modules.lab.simulate.books import Loader, Parts, differences_of_books, parts_of
from tests.modules.cloud.objects import configmap, namespace, node, pod, secret, service

RBAC = "rbac.authorization.k8s.io"
KEPT = 8
"""Changes of a kind that are kept, for watches and for lists: so few that they are soon too many."""
CONTROL_PLANE = ControlPlane(
    authority="a certificate", service=KubernetesService("10.96.0.1", "IPv4", ("192.0.2.1",), 6443)
)
Verb = Literal["apply", "delete", "dry run"]
End = Literal["stored", "full", "lost", "unanswered", "not begun"]


class Write(NamedTuple):
    """One request."""

    kind: str
    name: str
    variant: int
    verb: Verb


class Turn(NamedTuple):
    """Requests that share a transaction."""

    others: list[Write]
    """What another cloudcore has written before."""
    own: list[Write]
    end: End
    rests: bool
    """Whether some seconds pass before the disk has room again: the API server refuses what can wait until then."""


def check_books(running: Parts, loaded: Parts) -> None:
    """Check that a running API server has in its books what a fresh load finds. pytest would compare all: minutes."""
    wrong = list(differences_of_books(running, loaded))
    if wrong:
        raise AssertionError("; ".join(wrong))


class PastLists:
    """The lists that clients may continue: what there was at earlier versions.

    Args:
        cluster: has the objects.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[int, dict[ObjectKey, str]] = {}

    def note(self) -> None:
        """Note what there is."""
        storage = self._cluster.storage
        self._seen[storage.version] = {key: version_of(storage.get(key)) for key in storage}

    def check(self, *kinds: str) -> int:
        """Check that a list of an earlier version has what there was; return how many are still known."""
        storage, known = self._cluster.storage, 0
        for version, seen in self._seen.items():
            for kind in kinds:
                try:
                    listed = [*storage.list_after(kind_named(kind), None, ("", ""), version)]
                except ForgottenError:
                    continue
                known += 1
                found = {(each["metadata"]["name"], version_of(each)) for each in listed}
                assert found == {(key.name, at) for key, at in seen.items() if key.kind == kind}, (version, kind)
        return known


def wanted(write: Write, cluster: Cluster) -> JsonObject:
    """Return the object of a request; its owners are stored ones, if they are there."""
    kind, name, variant = write.kind, write.name, write.variant
    owner = cluster.storage.find(ObjectKey("ConfigMap", "default", "b"))
    owners = [] if owner is None else [{"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": uid_of(owner)}]
    match kind:
        case "ConfigMap":
            obj = configmap(name, text="x" * variant)
            obj["metadata"]["ownerReferences"] = owners if name == "a" and variant else []
        case "Secret":
            obj = secret(name, text="x" * variant)
        case "Pod":
            volume = {"name": "v", **([{"configMap": {"name": "a"}}, {"secret": {"secretName": "a"}}][variant % 2])}
            obj = pod(name, volumes=[volume], nodeName="n1")
            if name == "b":
                del obj["spec"]["nodeName"]
            obj["metadata"] |= {"labels": {"variant": str(variant)}, "ownerReferences": owners if variant else []}
        case "Node":
            obj = {"apiVersion": "v1", "kind": "Node", **node("n1", **{"kubernetes.io/hostname": f"host-{variant}"})}
            obj["status"] = {"capacity": {"pods": "9", "cpu": "4"}, "allocatable": {"pods": "9", "cpu": "4"}}
        case "ResourceQuota":
            obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
            obj["spec"] = {"hard": {"pods": "5", "count/configmaps": str(5 + variant)}}
        case "Namespace" | "ServiceAccount":
            obj = {**namespace({"Namespace": f"space-{name}"}.get(kind, "default")), "kind": kind}
        case "Service":
            obj = service(name, variant=str(variant))
        case "PersistentVolume":
            source = {
                "driver": "d",
                "volumeHandle": name,
                "nodePublishSecretRef": {"name": "a", "namespace": "default"},
            }
            obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": {"v": str(variant)}}}
            obj["spec"] = {"csi": source, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        case "ClusterRole":
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"][: variant + 1]}]
            obj = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, "rules": rules}
        case _:
            subjects = [{"kind": "User", "apiGroup": RBAC, "name": f"user-{variant}"}]
            reference = {"kind": "ClusterRole", "apiGroup": RBAC, "name": "a"}
            obj = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}}
            obj |= {"roleRef": reference, "subjects": subjects}
    if kind_named(kind).namespaced:
        obj["metadata"]["namespace"] = "default"
    return obj


KINDS = (
    "ConfigMap", "Secret", "Pod", "Node", "ResourceQuota", "Namespace", "Service", "PersistentVolume", "ClusterRole",
    "ClusterRoleBinding", "RoleBinding", "ServiceAccount",
)  # fmt: skip
WRITES = st.builds(
    Write,
    st.sampled_from(KINDS),
    st.sampled_from("ab"),
    st.integers(0, 2),
    st.sampled_from(["apply", "apply", "apply", "delete", "dry run"]),
)
ENDS = st.sampled_from(["stored", "full", "full", "lost", "unanswered", "not begun"])
TURNS = st.lists(
    st.builds(Turn, st.lists(WRITES, max_size=3), st.lists(WRITES, min_size=1, max_size=5), ENDS, st.booleans()),
    min_size=1,
    max_size=5,
)


DELETED_WHILE_FULL = [
    Turn([], [Write("ResourceQuota", "a", 0, "apply"), Write("ConfigMap", "a", 0, "apply")], "stored", rests=True),
    Turn([], [Write("Secret", "a", 0, "apply")], "full", rests=False),
    Turn([], [Write("ConfigMap", "a", 0, "delete")], "full", rests=False),
]
"""Reconcilers do not run on a full disk: what they would write leads to no second look at a namespace."""
ANOTHERS_BEFORE_FULL = [
    Turn([Write("ConfigMap", "a", 1, "apply")], [Write("Secret", "a", 0, "apply")], "full", rests=False)
]
"""The changes of the other cloudcore are in the transaction that is undone, and stay."""
MADE_WITHOUT_ROOM = [
    Turn([], [Write("Secret", "a", 0, "apply")], "full", rests=False),
    Turn([], [Write("ServiceAccount", "a", 0, "delete")], "stored", rests=False),
    Turn([], [Write("ConfigMap", "a", 0, "dry run")], "full", rests=True),
]
"""What the reconcilers write for a change that is stored is undone: they write it again when there is room."""
KEPT_BY_OTHER = ("Namespace", "Pod", "ServiceAccount")
"""Kinds whose deletion leads to writes of the reconcilers of the cloudcore that deletes."""
LEFT = ("Pod", "Service", "Namespace", "Node", "PersistentVolume")
"""Kinds whose new objects the reconcilers of the cloudcore that makes them complete: the other one has none."""


class OtherCloudcore:
    """Another cloudcore at the same database, without reconcilers."""

    def __init__(self, path: Path, bee: Harness) -> None:
        self._cluster = Cluster(bee.clock, Scheduling(is_enabled=False))
        self.database = Database(str(path), "other", durable=False)
        self._transactions = Transactions(self._cluster.storage, self.database, self)

    def object_changed(self, event: ObjectEvent) -> None:
        """Ignore a change."""

    def nodes_claimed(self, claims: Any) -> None:
        """Ignore claims."""

    def changes_rolled_back(self, events: list[ObjectEvent], nodes: set[str]) -> None:
        """Ignore it."""

    def write(self, writes: list[Write]) -> None:
        """Make requests in a transaction; those that cannot be made are left out."""
        for write in writes:
            self._transactions.begin()
            obj = wanted(write, self._cluster)
            live = self._cluster.storage.find(key_of(obj))
            if write.verb == "apply" and live is not None:
                self._cluster.storage.replace({**live, "metadata": {**live["metadata"], "labels": {"by": "other"}}})
            elif write.verb == "apply" and write.kind not in LEFT:
                self._cluster.storage.create(obj)
            elif write.verb == "delete" and live is not None and write.kind not in KEPT_BY_OTHER:
                self._cluster.storage.remove(key_of(obj))
        self._transactions.commit()


class Watch:
    """A client that watches a kind, and believes what it is told."""

    def __init__(self, kind: str, versions: dict[int, ObjectKey]) -> None:
        self.kind = kind
        self.has_ended = True
        self.has: dict[str, str] = {}
        self._versions = versions
        self._last = 0

    def put(self, changed: ObjectChanged) -> None:
        """Take a change."""
        if self.has_ended:
            return
        key, version = key_of(changed.object), changed.version
        assert version > self._last, "a change of an earlier version"
        assert self._versions.setdefault(version, key) == key, "a version was given twice"
        self._last = version
        name = f"{key.namespace}/{key.name}"
        if changed.change == "DELETED":
            assert self.has.pop(name, None) is not None, f"{name} is deleted, and was not there"
        else:
            assert (name in self.has) == (changed.change == "MODIFIED"), f"{changed.change} {name}"
            self.has[name] = str(version)

    def end(self) -> None:
        """Take that no more changes come."""
        self.has_ended = True

    def close(self) -> None:
        """Do nothing."""

    def begin(self, cluster: Cluster) -> None:
        """Take what there is, if the watch has ended."""
        if self.has_ended:
            self.has_ended, self._last, self.has = False, cluster.storage.version, self.present(cluster)

    def present(self, cluster: Cluster) -> dict[str, str]:
        """Return what there is."""
        found = (obj["metadata"] for obj in cluster.storage.list(kind_named(self.kind)))
        return {f"{meta.get('namespace', '')}/{meta['name']}": meta["resourceVersion"] for meta in found}


class Cloudcore:
    """An API server whose transactions can be made to fail."""

    def __init__(self, bee: Harness, path: Path, name: str = "own") -> None:
        self._bee = bee
        self.cluster = Cluster(bee.clock)
        self.database = Database(str(path), name, durable=False)
        subscriptions = Subscriptions()
        versions: dict[int, ObjectKey] = {}
        self.watches = [Watch(kind, versions) for kind in KINDS]
        for each in self.watches:
            subscriptions.add(each)
        bee.add(
            ApiServer, self.cluster, self.database, None, Refusals(bee.clock), subscriptions, index=RbacIndex(),
            control_plane=CONTROL_PLANE,
        )  # fmt: skip
        bee.start()
        self.begin_watches()

    @property
    def module(self) -> ApiServer:
        """The running module."""
        running = self._bee.hive.slot(ApiServer.name).running
        module = None if running is None else running.ref._actor_weakref()
        assert isinstance(module, ApiServer)
        return module

    def begin_watches(self) -> None:
        """Begin the watches that have ended."""
        for each in self.watches:
            each.begin(self.cluster)

    def request(self, writes: list[Write]) -> None:
        """Make requests in one transaction, and wait for the answers."""
        calls = [self._call(write) for write in writes]
        asked = [
            self._bee.future(ApiServer.name, self._bee.message("cloudcore/objects", "call", call, source="control"))
            for call in calls
        ]
        for future in asked:
            future.get()
        self._bee.settle()

    def _call(self, write: Write) -> ApiCall:
        obj, kind = wanted(write, self.cluster), kind_named(write.kind)
        meta = obj["metadata"]
        place = {"api_version": kind.api_version, "plural": kind.plural, "namespace": meta.get("namespace", "")}
        named = {**place, "name": meta["name"]}
        if write.verb == "delete":
            return ApiCall(verb="delete", **named, options={"gracePeriodSeconds": 0} if write.variant else {})
        options: dict[str, Any] = {"dryRun": ["All"]} if write.verb == "dry run" else {}
        return ApiCall(verb="patch", **named, patch_type=APPLY, body=obj, options={**options, "fieldManager": "people"})

    @contextmanager
    def ending(self, end: End) -> Iterator[None]:
        """Let the next transaction end in a way."""
        database, fails = self.database, {end}

        def is_due(of: End) -> bool:
            due = of in fails
            fails.discard(of)
            return due

        def begin(*args: Any) -> Any:
            if is_due("not begun"):
                raise DatabaseError("begin a transaction", "the test's", "it is locked")
            return Database.begin(database, *args)

        def commit(version: int) -> None:
            has_writes = bool(database._transaction or database._message)
            if has_writes and is_due("lost"):
                raise DatabaseError("commit", "the test's", "the connection is lost")
            Database.commit(database, version)
            if has_writes and is_due("unanswered"):
                raise DatabaseError("commit", "the test's", "the connection is lost")

        def make_durable() -> None:
            if "full" in fails:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            Database._make_durable(database)

        with pytest.MonkeyPatch.context() as patched:
            for name, double in (("begin", begin), ("commit", commit), ("_make_durable", make_durable)):
                patched.setattr(database, name, double)
            yield
        fails.clear()


@pytest.fixture
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep few changes of each kind."""
    monkeypatch.setattr(past_states, "CHANGES", KEPT)
    monkeypatch.setattr(watch_history, "CHANGES", KEPT)
    monkeypatch.setattr(watch_history, "FORGET_EVERY", 3)


@pytest.mark.usefixtures("few_changes")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS)
@example(turns=DELETED_WHILE_FULL)
@example(turns=ANOTHERS_BEFORE_FULL)
@example(turns=MADE_WITHOUT_ROOM)
def test_whatever_becomes_of_transactions_the_books_are_those_of_a_fresh_load(
    tmp_path_factory: pytest.TempPathFactory, turns: list[Turn]
) -> None:
    """Also with what another cloudcore has written before the same transaction; in the end an API server that starts
    finds nothing to do.
    """
    path = tmp_path_factory.mktemp("books") / "cloud.db"
    with Harness() as bee:
        bee.expect_failures("DatabaseError")
        core, other, loader = Cloudcore(bee, path), OtherCloudcore(path, bee), Loader(path, bee.clock)
        lists = PastLists(core.cluster)
        for turn in turns:
            lists.note()
            other.write(turn.others)
            with core.ending(turn.end):
                core.request(turn.own)
                check_books(parts_of(core.module), loader.parts())
                core.begin_watches()
                if turn.rests:
                    bee.run_for(FULL_SECONDS + 1)
                    check_books(parts_of(core.module), loader.parts())
            lists.check("ConfigMap", "Secret", "Pod")
            for watch in core.watches:
                assert watch.has == watch.present(core.cluster), watch.kind
        bee.run_for(FULL_SECONDS + 1)
        for each in (core.database, other.database, loader):
            each.close()
        version = core.cluster.storage.version
    with Harness() as bee:
        again = Cloudcore(bee, path, "again")
        found = [again.cluster.storage.get(key) for key in again.cluster.storage]
        again.database.close()
        assert not [obj for obj in found if int(version_of(obj)) > version]
