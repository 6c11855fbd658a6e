"""Pods of a lower priority make room. What is expected was recorded from kube-scheduler 1.32.13 on the embedded API
server, but for the silent node and the static pod.
"""

import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, kind_named
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.apiserver import scheduler
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduled import nominated_node, with_nominated_node
from modules.cloud.apiserver.scheduler import Placer
from modules.cloud.apiserver.scheduling.preemption import preemptions
from modules.cloud.apiserver.scheduling.rooms import PODS, NodeRoom, NodeRooms

HIGH, MID, LOW = 1000, 100, -10
OF_BUDGET = {"app": "guarded"}


def a_pod(
    name: str, on: str = "", cpu: str = "1", priority: int = 0, *, hour: int = 0, port: int = 0, **spec: Any
) -> JsonObject:
    """A pod that has run since an hour of a day, if it is on a node."""
    container: JsonObject = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": 1, "hostPort": port}]
    started = {"startTime": f"2026-01-01T{hour:02}:00:00Z", "phase": "Running"} if on else {}
    metadata: JsonObject = {"name": name, "namespace": "default", "labels": {"app": name}}
    given = {"containers": [container], "priority": priority, **({"nodeName": on} if on else {}), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given, "status": started}


def guarded(pod: JsonObject) -> JsonObject:
    """A pod that the budget is for."""
    return {**pod, "metadata": {**pod["metadata"], "labels": OF_BUDGET}}


def static(pod: JsonObject) -> JsonObject:
    """The mirror pod of a static pod."""
    return {**pod, "metadata": {**pod["metadata"], "annotations": {CONFIG_MIRROR: "x"}}}


def a_node(name: str, cpu: str = "2", pods: str = "110", ready: str = "True", **spec: Any) -> JsonObject:
    """A Node."""
    status = {
        "conditions": [{"type": "Ready", "status": ready}],
        "allocatable": {"cpu": cpu, "memory": "1Gi", "pods": pods},
    }
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def a_budget(allowed: int, **disrupted: str) -> JsonObject:
    """The budget of the pods with a label, and the pods that are being evicted."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": OF_BUDGET}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    return {**budget, "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted}}


def a_cluster(*objects: JsonObject, new: Sequence[JsonObject] = ()) -> Cluster:
    """A cloud with objects, where new ones are created then."""
    cluster = Cluster(Simulation(0).clock)
    for obj in objects:
        made = cluster.create({name: value for name, value in obj.items() if name != "status"})
        cluster.storage.replace({**made, "status": {**(made.get("status") or {}), **obj["status"]}})
    for obj in new:
        cluster.create(obj)
    return cluster


def pods(cluster: Cluster) -> dict[str, JsonObject]:
    """All pods by name."""
    return {pod["metadata"]["name"]: pod for pod in cluster.storage.list(kind_named("Pod"))}


def ending(cluster: Cluster) -> list[str]:
    """The pods that are being deleted."""
    return [name for name, pod in pods(cluster).items() if is_being_deleted(pod)]


def end(cluster: Cluster) -> None:
    """Let the nodes end what is being deleted, and the scheduler look at the pods that wait."""
    for name in ending(cluster):
        cluster.delete(ObjectKey("Pod", "default", name), grace=0)
    cluster.scheduler.place_waiting_pods()


def apart_from(name: str) -> JsonObject:
    """The rule of a pod that wants no pod of a name on its node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


TWO = [a_node("a"), a_pod("v1", "a"), a_pod("v2", "a")]
ONES = [a_node("a", "1"), a_node("b", "1")]
TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("objects", "pod", "node", "victims"),
    [
        (TWO, a_pod("p", priority=HIGH), "a", ["v2"]),
        (TWO, a_pod("p", cpu="2", priority=HIGH), "a", ["v1", "v2"]),
        (TWO, a_pod("p", cpu="3", priority=HIGH), "", []),
        (TWO, a_pod("p", priority=HIGH, preemptionPolicy="Never"), "", []),
        ([a_node("a"), a_pod("v1", "a", "2", HIGH)], a_pod("p", priority=HIGH), "", []),
        ([a_node("a"), a_pod("v1", "a", "1", HIGH), a_pod("v2", "a")], a_pod("p", cpu="2", priority=HIGH), "", []),
        ([a_node("a", taints=[TAINT]), a_pod("v1", "a", "2")], a_pod("p", priority=HIGH), "", []),
        ([a_node("a", "1"), a_pod("v1", "a", "1", LOW)], a_pod("p"), "a", ["v1"]),
        ([a_node("a"), a_pod("v1", "a", "500m", MID), a_pod("v2", "a", "500m", hour=5),
          a_pod("v3", "a", "500m", hour=1), a_pod("v4", "a", "500m", LOW)],
         a_pod("p", priority=HIGH), "a", ["v2", "v4"]),
        ([a_node("a"), a_node("b"), a_pod("a1", "a", priority=MID), a_pod("a2", "a"), a_pod("b1", "b", priority=LOW),
          a_pod("b2", "b", priority=LOW)], a_pod("p", priority=HIGH), "b", ["b2"]),
        ([a_node("a"), a_node("b"), a_pod("a1", "a", "500m"), a_pod("a2", "a", "500m"), a_pod("a3", "a", "1", HIGH),
          a_pod("b1", "b"), a_pod("b2", "b", "1", HIGH)], a_pod("p", priority=MID), "b", ["b1"]),
        ([*ONES, a_node("c", "1"), a_pod("a1", "a", hour=1), a_pod("b1", "b", hour=12), a_pod("c1", "c", hour=6)],
         a_pod("p", priority=HIGH), "b", ["b1"]),
        ([a_node("a"), a_node("b"), a_pod("a1", "a", hour=1), a_pod("a2", "a", hour=12), a_pod("b1", "b", hour=6),
          a_pod("b2", "b", hour=7)], a_pod("p", cpu="2", priority=HIGH), "b", ["b1", "b2"]),
        ([*ONES, guarded(a_pod("a1", "a")), a_pod("b1", "b", priority=MID), a_budget(0)],
         a_pod("p", priority=HIGH), "b", ["b1"]),
        ([a_node("a"), guarded(a_pod("a1", "a", priority=LOW)), a_pod("a2", "a", priority=MID), a_budget(0)],
         a_pod("p", priority=HIGH), "a", ["a2"]),
        ([a_node("a", "1"), guarded(a_pod("a1", "a")), a_budget(0)], a_pod("p", priority=HIGH), "a", ["a1"]),
        ([a_node("a"), guarded(a_pod("a1", "a", hour=1)), guarded(a_pod("a2", "a", hour=2)), a_budget(1)],
         a_pod("p", priority=HIGH), "a", ["a1"]),
        ([a_node("a"), guarded(a_pod("a1", "a", hour=1)), guarded(a_pod("a2", "a", hour=2)),
          a_budget(1, a1="2026-01-01T13:00:00Z")], a_pod("p", priority=HIGH), "a", ["a2"]),
        ([a_node("a", "3"), guarded(a_pod("a1", "a", hour=1)), a_pod("a2", "a", hour=2),
          guarded(a_pod("a3", "a", hour=3)), a_budget(0, a3="2026-01-01T13:00:00Z")],
         a_pod("p", priority=HIGH), "a", ["a3"]),
        ([a_node("a"), a_node("b"), a_pod("a1", "a", priority=LOW), a_pod("a2", "a", priority=LOW),
          a_pod("b1", "b", "2", LOW)], a_pod("p", cpu="2", priority=HIGH), "b", ["b1"]),
        ([a_node("a", "4"), a_pod("v1", "a", port=80), a_pod("v2", "a")], a_pod("p", priority=HIGH, port=80),
         "a", ["v1"]),
        ([a_node("a", "4", pods="2"), a_pod("v1", "a"), a_pod("v2", "a", priority=LOW)],
         a_pod("p", cpu="0", priority=HIGH), "a", ["v2"]),
        ([*ONES, a_pod("v1", "a"), a_pod("v2", "b")],
         a_pod("p", priority=HIGH, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
             {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "v1"}}}]}}), "", []),
        ([a_node("a", "1"), guarded(a_pod("v1", "a"))],
         guarded(a_pod("p", priority=HIGH, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
             {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": OF_BUDGET}}]}})), "a", ["v1"]),
        ([a_node("a", ready="Unknown"), a_pod("v1", "a", "2")], a_pod("p", priority=HIGH), "", []),
        ([a_node("a"), static(a_pod("v1", "a")), a_pod("v2", "a", priority=MID)],
         a_pod("p", priority=HIGH), "a", ["v2"]),
        ([a_node("a", "4"), a_pod("v1", "a"), a_pod("v2", "a")],
         a_pod("p", priority=HIGH, affinity=apart_from("v1")), "a", ["v1"]),
        ([a_node("a", "4"), a_pod("v1", "a"), a_pod("v2", "a", affinity=apart_from("p"))],
         a_pod("p", priority=HIGH), "a", ["v2"]),
        ([a_node("a", "4"), a_node("b", "4"), a_pod("v1", "a", priority=HIGH, affinity=apart_from("p")),
          a_pod("v2", "b", affinity=apart_from("p"))], a_pod("p", priority=HIGH), "b", ["v2"]),
        ([a_node("a", "4"), a_node("b", "1"), guarded(a_pod("v1", "a")), a_pod("v2", "b", priority=HIGH)],
         guarded(a_pod("p", priority=HIGH, topologySpreadConstraints=[{
             "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": OF_BUDGET}}])), "a", ["v1"]),
    ],
    ids=["one", "both", "too large", "never", "equal", "one equal", "taint", "negative", "as few as possible",
         "lowest priority", "fewest", "latest start", "latest first start", "node without a budget",
         "pod without a budget", "budget broken",
         "budget of one", "budget of one that is ending", "budget broken by others",
         "one of a negative priority",
         "port", "number of pods", "affinity to a victim", "affinity to itself, met by a victim", "silent node",
         "static pod",
         "anti-affinity to a victim", "anti-affinity of a victim", "anti-affinity of one that stays", "spread"],
)  # fmt: skip
def test_pods_of_a_lower_priority_make_room(
    objects: list[JsonObject], pod: JsonObject, node: str, victims: list[str]
) -> None:
    cluster = a_cluster(*objects, new=[pod])
    assert ending(cluster) == victims
    assert nominated_node(pods(cluster)["p"]) == node
    if node:
        cluster.scheduler.place_waiting_pods()
        assert ending(cluster) == victims, "the pod waits for their end"
        why = [one["reason"] for one in pods(cluster)[victims[0]]["status"]["conditions"]]
        assert why == ["PreemptionByScheduler"]
        uid = pods(cluster)["p"]["metadata"]["uid"]
        said = [event["message"] for event in cluster.storage.list(kind_named("Event"))]
        assert said.count(f"Preempted by pod {uid} on node {node}") == len(victims)
        end(cluster)
        assert pods(cluster)["p"]["spec"]["nodeName"] == node


def test_room_that_is_made_is_kept_for_its_pod() -> None:
    """One of a lower priority does not get it, and one of the same priority has its own made."""
    cluster = a_cluster(*TWO, new=[a_pod("p", priority=HIGH), a_pod("low", priority=LOW)])
    cluster.delete(ObjectKey("Pod", "default", "v2"), grace=0)
    cluster.create(a_pod("lower", priority=LOW))
    cluster.create(a_pod("q", priority=HIGH))
    assert ending(cluster) == ["v1"]
    end(cluster)
    found = {name: pod["spec"].get("nodeName", "") for name, pod in pods(cluster).items()}
    assert found == {"p": "a", "q": "a", "low": "", "lower": ""}
    assert not nominated_node(pods(cluster)["low"])


def test_room_is_kept_for_its_pod_though_an_equal_pod_finds_none() -> None:
    """The equal pod comes first by its name, as both were made in one second."""
    cluster = a_cluster(a_node("a"), a_pod("v", "a", "2"))
    for name in ("q", "p"):
        cluster.create(guarded(a_pod(name, cpu="2", priority=HIGH)))
    cluster.scheduler.place_waiting_pods()
    assert {name: nominated_node(pod) for name, pod in pods(cluster).items()} == {"v": "", "q": "a", "p": ""}


def a_fleet(nodes: list[JsonObject], *there: JsonObject) -> NodeRooms:
    """Nodes with pods."""
    fleet = NodeRooms()
    fleet.set_nodes(nodes)
    for pod in there:
        fleet.rooms[pod["spec"]["nodeName"]].add(pod)
    return fleet


def only_on(node: str, name: str) -> JsonObject:
    """A pod that fits one node only, and is otherwise like all others."""
    selector = {"kubernetes.io/hostname": node}
    return guarded(a_pod(name, priority=MID, nodeSelector=selector))


def test_room_that_a_pod_gives_up_is_for_the_next_one() -> None:
    """Also if an equal pod was refused before, or no others could make room for it."""
    moved = with_nominated_node(only_on("b", "moved"), "a")
    placer = Placer(a_fleet(ONES), [moved])
    placed = [placer.place(pod).node for pod in (only_on("a", "one"), moved, only_on("a", "two"))]
    assert placed == ["", "b", "a"]
    placer = Placer(a_fleet(ONES, a_pod("v1", "a"), a_pod("v2", "b")), [moved])
    found = [placer.preemption(pod, list) for pod in (only_on("a", "one"), moved, only_on("a", "two"))]
    assert [one and one.node for one in found] == [None, "b", "a"]


def test_room_that_is_kept_for_others_is_none_of_their_pods_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = Placer(fleet := a_fleet(ONES), [with_nominated_node(only_on("b", "moved"), "a")])
    placer._lowest = -math.inf
    monkeypatch.setattr(scheduler, "preemptions", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        placer.preemption(only_on("a", "one"), list)
    assert [room.lowest_priority for room in fleet.rooms.values()] == [math.inf] * 2


def test_a_pod_that_takes_the_room_that_was_kept_for_it_lets_no_equal_pods_be_looked_at_again() -> None:
    chosen = with_nominated_node(only_on("n0", "chosen"), "n0")
    placer = Placer(a_fleet([a_node(f"n{number}", "1") for number in range(20)]), [chosen])
    looks = []
    for pod in (only_on("n0", "one"), chosen, only_on("n0", "two")):
        before = placer.looks
        placer.place(pod)
        looks.append(placer.looks - before)
    assert looks == [20, 20, 5]


def test_room_is_not_kept_for_ever() -> None:
    """Its room was taken, and the pod finds none any more."""
    cluster = a_cluster(*TWO, new=[a_pod("p", priority=MID), a_pod("stronger", cpu="2", priority=HIGH)])
    end(cluster)
    found = pods(cluster)
    assert (found["stronger"]["spec"]["nodeName"], nominated_node(found["p"])) == ("a", "")
    victims = [event["involvedObject"]["name"] for event in cluster.storage.list(kind_named("Event"))]
    assert victims.count("v2") == 1, "it was ending already"


def test_no_room_is_kept_for_a_pod_that_is_being_deleted() -> None:
    """A finalizer holds it; it gets no node any more."""
    cluster = a_cluster(*TWO)
    waiting = a_pod("p", priority=HIGH)
    cluster.create({**waiting, "metadata": {**waiting["metadata"], "finalizers": ["example.com/hold"]}})
    assert nominated_node(pods(cluster)["p"]) == "a"
    cluster.delete(ObjectKey("Pod", "default", "p"))
    end_of = ObjectKey("Pod", "default", "v2")
    cluster.delete(end_of, grace=0)
    assert cluster.create(a_pod("q"))["spec"].get("nodeName") == "a"


def test_a_pod_that_is_being_deleted_gets_no_node() -> None:
    cluster = a_cluster()
    waiting = a_pod("p")
    cluster.create({**waiting, "metadata": {**waiting["metadata"], "finalizers": ["example.com/hold"]}})
    cluster.delete(ObjectKey("Pod", "default", "p"))
    cluster.create(a_node("a"))
    assert not pods(cluster)["p"]["spec"].get("nodeName")


def test_a_pod_whose_room_another_got_has_other_pods_make_room() -> None:
    cluster = a_cluster(*TWO, new=[a_pod("p", priority=MID), a_pod("stronger", priority=HIGH)])
    end(cluster)
    cluster.scheduler.place_waiting_pods()
    assert (ending(cluster), nominated_node(pods(cluster)["p"])) == (["v1"], "a")


def test_a_pod_that_waits_for_its_room_has_no_others_make_room() -> None:
    cluster = a_cluster(*ONES, a_pod("v1", "a", priority=MID), a_pod("v2", "b", priority=HIGH))
    cluster.create(a_pod("p", priority=HIGH))
    assert ending(cluster) == ["v1"]
    cluster.delete(ObjectKey("Pod", "default", "v2"), grace=0)
    cluster.create(a_pod("lower", "b", priority=LOW))
    cluster.scheduler.place_waiting_pods()
    assert ending(cluster) == ["v1"]


def test_a_pod_does_not_wait_for_one_of_its_own_priority() -> None:
    """Only of a lower one are victims, also if that one ends for another reason."""
    cluster = a_cluster(a_node("a"), a_pod("v1", "a"), a_pod("v2", "a", priority=HIGH), new=[a_pod("p", priority=HIGH)])
    assert ending(cluster) == ["v1"]
    cluster.delete(ObjectKey("Pod", "default", "v1"), grace=0)
    cluster.delete(ObjectKey("Pod", "default", "v2"))
    cluster.create(a_pod("w", "a", priority=LOW))
    cluster.scheduler.place_waiting_pods()
    assert ending(cluster) == ["v2", "w"]


def test_a_pod_does_not_wait_for_pods_of_a_node_that_has_become_silent() -> None:
    """They end when it is back, perhaps never."""
    cluster = a_cluster(*ONES, a_pod("v1", "a"), a_pod("v2", "b", priority=MID), new=[a_pod("p", priority=HIGH)])
    assert ending(cluster) == ["v1"]
    silent = a_node("a", "1", ready="Unknown")
    cluster.storage.replace({**cluster.storage.get(ObjectKey("Node", "", "a")), "status": silent["status"]})
    cluster.scheduler.place_waiting_pods()
    assert (ending(cluster), nominated_node(pods(cluster)["p"])) == (["v1", "v2"], "b")


def test_a_budget_protects_no_pod_of_another_namespace() -> None:
    budget = a_budget(0)
    budget["metadata"]["namespace"] = "other"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}, "status": {}}
    cluster = a_cluster(*ONES, guarded(a_pod("a1", "a")), a_pod("b1", "b", priority=MID), namespace, budget)
    cluster.create(a_pod("p", priority=HIGH))
    assert ending(cluster) == ["a1"]


def test_the_most_important_pod_that_waits_is_placed_first() -> None:
    cluster = a_cluster()
    for name, priority in (("a", LOW), ("b", HIGH), ("c", MID)):
        cluster.create(a_pod(name, priority=priority))
    cluster.create(a_node("n", "1"))
    assert [name for name, pod in pods(cluster).items() if pod["spec"].get("nodeName")] == ["b"]


def test_a_victim_that_cannot_be_deleted_refuses_no_pod(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = a_cluster(*TWO)

    def refuse(*_: object) -> None:
        raise ForbiddenError("pods", "v2", "a webhook says no")

    monkeypatch.setattr(cluster.scheduler, "_delete", refuse)
    cluster.create(a_pod("p", priority=HIGH))
    assert not ending(cluster)
    assert not nominated_node(pods(cluster)["p"])
    assert "no room is made" in caplog.text


def test_the_only_node_that_a_pod_may_go_to_is_found_in_a_large_fleet() -> None:
    names = [f"n{number:03}" for number in range(110)]
    cluster = a_cluster(*(a_node(name) for name in names), *(a_pod(f"low-{name}", on=name, cpu="2") for name in names))
    cluster.create(a_pod("p", priority=HIGH, nodeSelector={"kubernetes.io/hostname": names[-1]}))
    assert ending(cluster) == [f"low-{names[-1]}"]


def test_few_nodes_with_many_pods_are_tried() -> None:
    """A look at all of them would keep the API server from its other work."""
    rooms, tried = [NodeRoom(a_node(f"n{number}")) for number in range(20)], set[str]()
    for room in rooms:
        for number in range(100):
            room.add({**a_pod(f"{room.name}-{number}"), "metadata": {"name": f"{room.name}-{number}", "namespace": ""}})

    def fits(room: NodeRoom) -> bool:
        tried.add(room.name)
        return room.used[PODS] < 100

    assert [len(one.victims) for one in preemptions(a_pod("p", priority=HIGH), rooms, fits, [])] == [1] * 5
    assert len(tried) == 5
