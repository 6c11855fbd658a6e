"""Nodes whose lease has run out, and nodes under pressure."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.apimachinery.limits import OBJECT_BYTES
from modules.cloud.apiserver.built_in_controllers import OrphanedPods
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.node_lifecycle import NodeEvents
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.objects import pod

REPORTED = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
N1 = ObjectKey("Node", "", "n1")
SILENT_FROM_BIRTH: JsonObject = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}


def conditions(**changed: str) -> list[JsonObject]:
    """The conditions of a node that is well, but for some."""
    well = {kind: "True" if kind == "Ready" else "False" for kind in REPORTED}
    return [
        {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status in {**well, **changed}.items()
    ]


def node(*taints: JsonObject, **changed: str) -> JsonObject:
    """A Node with the conditions."""
    spec = {"taints": list(taints)} if taints else {}
    status = {"conditions": conditions(**changed)}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "spec": spec, "status": status}


def lease(**spec: Any) -> JsonObject:
    """The node's."""
    metadata = {"name": "n1", "namespace": "kube-node-lease"}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec}


def ready(cluster: Cluster) -> JsonObject:
    """The condition Ready."""
    found = cluster.storage.get(N1)["status"]["conditions"]
    return next(one for one in found if one["type"] == "Ready")


def events(cluster: Cluster) -> list[str]:
    """The messages of all Events."""
    return [event["message"] for event in cluster.storage.list(kind_named("Event"))]


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(0)


@pytest.fixture
def cluster(simulation: Simulation) -> Cluster:
    return Cluster(simulation.clock)


@pytest.mark.parametrize(
    ("spec", "seconds", "status"),
    [
        ({"renewTime": "2026-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 39.0, "True"),
        ({"renewTime": "2027-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 41.0, "Unknown"),
        ({"renewTime": "1999-11-20T01:54:49.500000Z", "leaseDurationSeconds": 40}, 39.0, "True"),
        ({"leaseDurationSeconds": 2_000_000_000}, 301.0, "Unknown"),
        ({}, 41.0, "Unknown"),
    ],
    ids=[
        "a lease that is renewed",
        "a clock that is a year ahead",
        "a clock that is decades behind",
        "a lease for ever",
        "a lease that says nothing",
    ],
)
def test_a_dead_node_is_not_ready_for_any_clock_of_its_own(
    cluster: Cluster, simulation: Simulation, spec: dict[str, Any], seconds: float, status: str
) -> None:
    cluster.create(node())
    cluster.create(lease(**spec))
    simulation.run_for(seconds)
    assert cluster.node_lifecycle.has_silent() is (status == "Unknown")
    cluster.node_lifecycle.mark_silent()
    assert ready(cluster)["status"] == status


@pytest.mark.parametrize("has_lease", [True, False])
def test_no_node_is_silent_because_the_cloud_stood_still(
    cluster: Cluster, simulation: Simulation, *, has_lease: bool
) -> None:
    """A cloudcore that got no processor for a minute marked all its nodes before it read their renewals."""
    cluster.create(node())
    if has_lease:
        cluster.create(lease(leaseDurationSeconds=40))
    looks: list[bool] = []
    for seconds in (5.0, 60.0, 15.0, 15.0, 10.0, 5.0):
        looks.append(cluster.node_lifecycle.overdue() is not None)
        simulation.run_for(seconds)
    assert (looks, cluster.node_lifecycle.overdue() is not None) == ([False] * 6, True)


def test_a_silent_node_is_marked_once_with_the_time_and_an_event(cluster: Cluster, simulation: Simulation) -> None:
    """Conditions that others have set stay."""
    cluster.create(node(Gate="True"))
    cluster.create(lease())
    simulation.run_for(41.0)
    cluster.node_lifecycle.mark_silent()
    marked = cluster.storage.get(N1)
    assert {one["type"]: one["status"] for one in marked["status"]["conditions"]} == {
        **dict.fromkeys(REPORTED, "Unknown"),
        "Gate": "True",
    }
    assert ready(cluster)["lastTransitionTime"] > "2026-01-01T00:00:00Z"
    assert [(one["key"], one["effect"]) for one in marked["spec"]["taints"]] == SILENT
    assert events(cluster) == ["Node n1 status is now: NodeNotReady"]
    simulation.run_for(41.0)
    assert not cluster.node_lifecycle.has_silent()
    cluster.node_lifecycle.mark_silent()
    assert cluster.storage.get(N1) is marked
    assert len(events(cluster)) == 1


def test_a_node_that_was_not_ready_before_falls_silent_without_an_event(
    cluster: Cluster, simulation: Simulation
) -> None:
    cluster.create(node(Ready="False"))
    cluster.create(lease())
    simulation.run_for(41.0)
    cluster.node_lifecycle.mark_silent()
    assert (ready(cluster)["status"], events(cluster)) == ("Unknown", [])


def test_of_a_node_without_a_lease_the_heartbeats_of_its_status_count(cluster: Cluster, simulation: Simulation) -> None:
    """By the cloud's clock, and whoever else writes the Node: KubeEdge's edges of 2019 have no Lease."""
    cluster.create(node())
    for second in range(3):
        assert not cluster.node_lifecycle.has_silent()
        simulation.run_for(30.0)
        live = cluster.storage.get(N1)
        beaten = [{**one, "lastHeartbeatTime": f"1999-01-01T00:00:0{second}Z"} for one in live["status"]["conditions"]]
        cluster.replace({**live, "status": {**live["status"], "conditions": beaten}})
    assert not cluster.node_lifecycle.has_silent()
    simulation.run_for(39.0)
    labelled = {**cluster.storage.get(N1)["metadata"], "labels": {"by": "another"}}
    cluster.replace({**cluster.storage.get(N1), "metadata": labelled})
    assert not cluster.node_lifecycle.has_silent()
    simulation.run_for(2.0)
    assert cluster.node_lifecycle.has_silent()
    cluster.node_lifecycle.mark_silent()
    assert ready(cluster)["status"] == "Unknown"
    assert events(cluster) == ["Node n1 status is now: NodeNotReady"]
    assert not cluster.node_lifecycle.has_silent()


def test_no_heartbeat_is_kept_of_a_node_that_is_gone(cluster: Cluster) -> None:
    cluster.create(node())
    cluster.node_lifecycle.has_silent()
    cluster.delete(N1)
    cluster.node_lifecycle.has_silent()
    assert not cluster.node_lifecycle._heartbeats


def test_after_an_undone_transaction_all_nodes_get_their_taints(cluster: Cluster) -> None:
    conditions = [{"type": "DiskPressure", "status": "True"}]
    cluster.storage.create({**node(), "kind": "Node", "apiVersion": "v1", "status": {"conditions": conditions}})
    cluster.node_lifecycle.reset()
    cluster.node_lifecycle.reconcile(lambda work: work(), is_turn=False)
    assert [taint["key"] for taint in cluster.storage.get(N1)["spec"]["taints"]] == ["node.kubernetes.io/disk-pressure"]


def test_a_node_that_has_never_reported_is_unknown_after_a_minute(cluster: Cluster, simulation: Simulation) -> None:
    """So is one that was deleted and made again meanwhile."""
    cluster.create(SILENT_FROM_BIRTH)
    assert not cluster.node_lifecycle.has_silent()
    simulation.run_for(59.0)
    cluster.delete(N1)
    cluster.create(SILENT_FROM_BIRTH)
    for seconds in (59.0, 2.0):
        assert not cluster.node_lifecycle.has_silent()
        simulation.run_for(seconds)
    cluster.node_lifecycle.mark_silent()
    found = cluster.storage.get(N1)
    assert {one["type"] for one in found["status"]["conditions"]} == set(REPORTED)
    assert {one["reason"] for one in found["status"]["conditions"]} == {"NodeStatusNeverUpdated"}
    assert [(one["key"], one["effect"]) for one in found["spec"]["taints"]] == SILENT
    assert not cluster.node_lifecycle.has_silent()


def test_a_node_that_cannot_be_stored_keeps_no_other_from_being_marked(
    cluster: Cluster, simulation: Simulation
) -> None:
    unlucky = node()
    unlucky["metadata"] = {"name": "n0"}
    unlucky["status"]["images"] = [{"names": ["x" * (OBJECT_BYTES - 850)]}]
    cluster.create(unlucky)
    cluster.create(node())
    for name in ("n0", "n1"):
        cluster.create({**lease(), "metadata": {"name": name, "namespace": "kube-node-lease"}})
    simulation.run_for(41.0)
    cluster.node_lifecycle.mark_silent()
    assert ready(cluster)["status"] == "Unknown"
    kept = cluster.storage.get(ObjectKey("Node", "", "n0"))
    assert kept["status"]["conditions"][-1]["status"] == "True"


SILENT = [("node.kubernetes.io/unreachable", "NoSchedule"), ("node.kubernetes.io/unreachable", "NoExecute")]


@pytest.mark.parametrize("ready", ["True", "False"])
def test_a_node_that_answers_loses_the_taints_of_silence_only(cluster: Cluster, ready: str) -> None:
    cluster.create(node(OTHER, *({"key": key, "effect": effect} for key, effect in SILENT), Ready=ready))
    cluster.node_lifecycle.taint(["n1"])
    assert cluster.storage.get(N1)["spec"]["taints"] == [OTHER]


DISK = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "cameras", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "pressure", "expected"),
    [
        ([], "True", [DISK["key"]]),
        ([OTHER], "True", ["dedicated", DISK["key"]]),
        ([OTHER, DISK], "True", ["dedicated", DISK["key"]]),
        ([OTHER, DISK], "False", ["dedicated"]),
        ([DISK], "False", []),
        ([DISK], "Unknown", [DISK["key"]]),
        ([], "Unknown", []),
    ],
)
def test_a_pressure_is_a_taint_as_long_as_the_node_reports_it(
    cluster: Cluster, taints: list[JsonObject], pressure: str, expected: list[str]
) -> None:
    """A node that is unknown keeps its taint; others' taints stay."""
    cluster.create(node(*taints, DiskPressure=pressure))
    before = cluster.storage.get(N1)
    cluster.node_lifecycle.taint(["n1", "unknown"])
    after = cluster.storage.get(N1)
    assert [taint["key"] for taint in after["spec"].get("taints", ())] == expected
    assert (after is before) == ([taint["key"] for taint in taints] == expected)


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def _with_pods(**nodes: str) -> tuple[Cluster, OrphanedPods]:
    """Return a cluster with the node n1 and pods, each of a node, and their reconciler, which gets later changes."""
    cluster = Cluster(Simulation(0).clock)
    cluster.create(node())
    for name, its in nodes.items():
        cluster.create({**pod(nodeName=its), "metadata": {"name": name, "namespace": "default"}})
    cluster.storage.drain_events()
    reconciler = OrphanedPods(cluster)
    reconciler.load()
    return cluster, reconciler


def _delete(cluster: Cluster, *names: str) -> list[ObjectEvent]:
    """Begin to delete pods, and return the changes."""
    for name in names:
        cluster.delete(ObjectKey("Pod", "default", name))
    return cluster.storage.drain_events()


def test_a_deleted_pod_of_a_node_that_does_not_exist_is_removed() -> None:
    """No node would ever report its end. Without a deletion it waits for its node."""
    cluster, reconciler = _with_pods(here="n1", nowhere="n2", waits="n2")
    for event in _delete(cluster, "here", "nowhere"):
        reconciler.handle_event(event)
    work = reconciler.overdue()
    assert work is not None
    work()
    assert [_name(each) for each in cluster.storage.list(kind_named("Pod"))] == ["here", "waits"]
    assert reconciler.overdue() is None


def test_a_pod_of_a_node_that_is_gone_later_is_removed_after_a_restart_too() -> None:
    """A pod that was being deleted before this cloudcore started is found, though nothing changes on it any more."""
    cluster, _ = _with_pods(here="n1")
    _delete(cluster, "here")
    reconciler = OrphanedPods(cluster)
    reconciler.load()
    assert reconciler.overdue() is None
    cluster.delete(N1)
    assert reconciler.overdue() == reconciler.remove


def test_a_pod_whose_change_was_taken_back_is_looked_at_again() -> None:
    """Nor is a pod forgotten whose removal was taken back: its state is looked at."""
    cluster, reconciler = _with_pods(nowhere="n2")
    assert reconciler.overdue() is None
    (event,) = _delete(cluster, "nowhere")
    reconciler.roll_back(event)
    assert reconciler.overdue() == reconciler.remove


def test_pods_that_wait_for_their_nodes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every few seconds: 50,000 would cost each cloudcore 80 ms each time."""
    cluster, reconciler = _with_pods(**{f"p{number}": "n2" for number in range(20)}, nowhere="n2")
    for event in _delete(cluster, "nowhere"):
        reconciler.handle_event(event)
    looked: list[ObjectKey] = []
    find = cluster.storage.find

    def find_noted(key: ObjectKey) -> JsonObject | None:
        looked.append(key)
        return find(key)

    monkeypatch.setattr(cluster.storage, "find", find_noted)
    assert reconciler.overdue() is not None
    assert len([key for key in looked if key.kind == "Pod"]) == 21
    looked.clear()
    assert reconciler.overdue() is not None
    assert [key.name for key in looked if key.kind == "Pod"] == ["nowhere"]


def test_events_tell_of_new_nodes_and_of_deleted_ones() -> None:
    """In kube-controller-manager's words; a change that was undone is no news."""
    cluster = Cluster(Simulation().clock)
    node_events = NodeEvents(cluster.report)
    made = cluster.create(node())

    def changed(*changes: ObjectEvent) -> list[str]:
        for change in changes:
            node_events.handle_own(change)
        if len(changes) > 1:
            node_events.roll_back(changes[-1])
        for _ in range(2):
            assert not node_events.reconcile(lambda work: work(), is_turn=False)
        return [f"{each['reason']}: {each['message']}" for each in cluster.storage.list(kind_named("Event"))]

    registered = "RegisteredNode: Node n1 event: Registered Node n1 in Controller"
    assert changed(ObjectEvent(EventType.MODIFIED, N1, made, made)) == []
    assert changed(ObjectEvent(EventType.ADDED, N1, made, None)) == [registered]
    newer = {**made, "metadata": {**made["metadata"], "resourceVersion": "99"}}
    gone = ObjectEvent(EventType.DELETED, N1, newer, newer)
    again = ObjectEvent(EventType.ADDED, N1, made, None)
    assert changed(again, gone) == [registered]
    assert changed(gone, again) == [registered, "RemovingNode: Node n1 event: Removing Node n1 from Controller"]
    (event, _) = cluster.storage.list(kind_named("Event"))
    assert (event["source"], event["metadata"]["namespace"]) == ({"component": "node-controller"}, "default")
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
