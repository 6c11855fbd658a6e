"""Where the scheduler puts a pod."""

from __future__ import annotations

from typing import Any

import pytest

from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver import scheduler
from modules.cloud.apiserver.scheduler import Placement, Placer


def a_node(name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    condition = {"type": "Ready", "status": "True" if ready else "Unknown"}
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "3"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": [condition], "allocatable": allocatable},
    }


def a_pod(name: str = "p", on: str = "", cpu: str = "", port: int = 0, **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "c", "image": "i"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if port:
        container["ports"] = [{"containerPort": 1, "hostPort": port}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], "nodeName": on, **spec}}


def place(pod: JsonObject, nodes: list[JsonObject], pods: list[JsonObject]) -> Placement:
    return Placer(nodes, pods).place(pod)


def test_the_ready_one_with_the_fewest_pods_and_then_the_first_by_name() -> None:
    nodes = [a_node("c"), a_node("b"), a_node("a", ready=False)]
    assert place(a_pod(), nodes, []).node == "b"
    assert place(a_pod(), nodes, [a_pod("x", on="b")]).node == "c"
    ended = {**a_pod("x", on="b"), "status": {"phase": "Succeeded"}}
    assert place(a_pod(), nodes, [ended]).node == "b", "a pod that has ended takes no room"
    assert place(a_pod(), [nodes[2]], []).node == "a", "a node that is offline gets it when it connects"


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "pod", "others", "reason"),
    [
        (a_node("n"), a_pod(nodeSelector={"a": "b"}), [], "node(s) didn't match Pod's node affinity/selector"),
        (a_node("n", unschedulable=True), a_pod(), [], "node(s) were unschedulable"),
        (a_node("n", taints=[TAINT]), a_pod(), [], "node(s) had untolerated taint {gpu: yes}"),
        (a_node("n"), a_pod(cpu="600m"), [a_pod("x", on="n", cpu="500m")], "Insufficient cpu"),
        (a_node("n"), a_pod(), [a_pod(str(i), on="n") for i in range(3)], "Too many pods"),
        (a_node("n"), a_pod(port=80), [a_pod("x", on="n", port=80)],
         "node(s) didn't have free ports for the requested pod ports"),
    ],
)  # fmt: skip
def test_a_node_that_does_not_fit(node: JsonObject, pod: JsonObject, others: list[JsonObject], reason: str) -> None:
    placement = place(pod, [node], others)
    assert placement == ("", f"0/1 nodes are available: 1 {reason}.")
    assert place(pod, [node, a_node("other", labels={"a": "b"})], others).node == "other"


def test_a_toleration_lets_a_pod_onto_a_node() -> None:
    node = a_node("n", taints=[TAINT], unschedulable=True)
    everything = [{"operator": "Exists"}]
    assert place(a_pod(tolerations=everything), [node], []).node == "n"


def test_what_keeps_each_node_away_is_counted() -> None:
    nodes = [a_node("a", unschedulable=True), a_node("b", unschedulable=True), a_node("c", taints=[TAINT])]
    why = place(a_pod(), nodes, []).why
    assert why == ("0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 2 node(s) were unschedulable.")
    assert place(a_pod(), [], []).why == "no nodes available to schedule pods"


def test_a_node_that_reports_nonsense_keeps_only_itself_from_pods() -> None:
    broken, good = a_node("a"), a_node("b")
    broken["status"]["allocatable"] = {"cpu": "many"}
    assert "cannot be read" in place(a_pod(), [broken], []).why
    assert place(a_pod(), [broken, good], []).node == "b"
    mirror = a_pod("mirror", on="a", overhead={"cpu": "lots"})
    assert place(a_pod(), [a_node("a"), good], [mirror, a_pod("x", on="b"), a_pod("y", on="b")]).node == "b"


def test_many_pods_are_placed_one_after_another_with_one_reading_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred pods that waited beside a hundred nodes kept the API server busy for twelve seconds."""
    nodes, others = [a_node(f"n{i}") for i in range(10)], [a_pod(f"x{i}", on=f"n{i}", cpu="500m") for i in range(10)]
    placer, read = Placer(nodes, others), list[str]()

    def counted(obj: JsonObject, kind: Any, name: str) -> Any:
        read.append(name)
        return convert(obj, kind, name)

    monkeypatch.setattr(scheduler, "convert", counted)
    assert [placer.place(a_pod(f"w{i}", cpu="600m")).node for i in range(50)] == [""] * 50
    assert (read.count("Node"), read.count("Pod")) == (10, 11)
    assert [placer.place(a_pod(f"w{i}", cpu="300m")).node for i in range(11)] == [*(f"n{i}" for i in range(10)), ""]
