"""edged alone on the bus: the node itself, which registers, renews its lease and says how it is."""

from typing import Any

import pytest

from beehive import Message, ModuleName
from tests.edged.conftest import Bench, pod, unavailable


def test_the_node_registers_takes_a_lease_and_is_ready(bench: Bench) -> None:
    bench.start(wait=1)
    node = bench.meta.cloud["null/node/n1"]
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "EdgeReady")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "fake://1.0"
    lease = bench.meta.cloud["kube-node-lease/lease/n1"]
    first = lease["spec"]["renewTime"]
    bench.run(11)
    assert bench.meta.cloud["kube-node-lease/lease/n1"]["spec"]["renewTime"] > first


def test_a_node_that_is_there_already_is_taken(bench: Bench) -> None:
    bench.meta.cloud["null/node/n1"] = {"metadata": {"name": "n1", "uid": "old", "resourceVersion": "5"}}
    bench.start(wait=1)
    assert bench.meta.cloud["kube-node-lease/lease/n1"]["metadata"]["ownerReferences"][0]["uid"] == "old"
    assert bench.meta.patches["null/nodepatch/n1"]


def test_the_node_registers_when_the_cloud_comes(bench: Bench) -> None:
    bench.meta.connected = False
    bench.start(wait=30)
    assert not bench.meta.cloud
    bench.connection("cloud_connected", wait=0.5)
    assert "null/node/n1" in bench.meta.cloud


def test_the_node_registers_immediately_when_the_cloud_comes_before_its_absence_is_known(bench: Bench) -> None:
    bench.meta.connected = False

    def cloud_comes_before_the_answer(message: Message) -> Message | None:
        answer = bench.meta(message)
        if message.route.resource == "null/node/n1" and not bench.meta.connected:
            bench.meta.connected = True
            event = bench.bee.message("node/connection", "connect", "cloud_connected", source="edgehub")
            bench.bee.hive.send(ModuleName.EDGED, event)
        return answer

    bench.bee.answer(ModuleName.METAMANAGER, cloud_comes_before_the_answer)
    bench.start()
    assert "null/node/n1" in bench.meta.cloud


def test_a_runtime_that_is_down_makes_the_node_not_ready(bench: Bench) -> None:
    bench.start(wait=1)
    bench.runtime.fail("status", unavailable(), times=3)
    bench.run(11)
    conditions = [c for patch in bench.meta.patches["null/nodepatch/n1"] for c in patch["status"]["conditions"]]
    ready = next(c for c in conditions if c["type"] == "Ready" and c.get("status") == "False")
    assert "container runtime is down" in ready["message"]


def test_an_unchanged_node_status_is_sent_every_hour_only(bench: Bench) -> None:
    bench.start(wait=3500)
    before = len(bench.meta.patches.get("null/nodepatch/n1", []))
    assert before <= 1
    bench.run(3700)
    assert len(bench.meta.patches["null/nodepatch/n1"]) - before in (1, 2)


def tell_node(bench: Bench, version: int, operation: str = "update", **metadata: Any) -> None:
    """The cloud says how it has the node now, as metamanager hands it on; nothing is done yet."""
    node = bench.meta.cloud["null/node/n1"]
    node = {**node, "metadata": {**node["metadata"], "resourceVersion": str(version), **metadata}}
    message = bench.bee.message("null/node/n1", operation, node, source="edgecontroller")
    bench.bee.hive.send(ModuleName.EDGED, message)


def test_a_label_that_came_just_before_its_pod_counts(bench: Bench) -> None:
    """Both may wait in the inbox. A pod that was refused before stays so, as with a kubelet."""
    bench.start(pod("early", nodeSelector={"disk": "ssd"}))
    tell_node(bench, 2000, labels={"disk": "ssd"})
    bench.post("insert", pod("late", nodeSelector={"disk": "ssd"}))
    bench.run(2)
    assert bench.meta.phases("late")[-1] == "Running"
    assert bench.meta.phases("early") == ["Failed"]
    assert bench.meta.statuses("early")[-1]["reason"] == "NodeAffinity"


def labelled_in_the_cloud(bench: Bench) -> None:
    """Somebody has labelled the node; the cloud has not told of it."""
    metadata = bench.meta.cloud["null/node/n1"]["metadata"]
    metadata |= {"labels": {**metadata["labels"], "disk": "ssd"}, "resourceVersion": "2000"}


def test_a_label_that_comes_behind_its_pod_counts_too(bench: Bench) -> None:
    """KubeEdge's cloud sends the two from different loops. Several pods ask once."""
    bench.start()
    labelled_in_the_cloud(bench)
    asked = len(bench.asked("query", "null/node/n1"))
    for name in ("a", "b", "c"):
        bench.post("insert", pod(name, nodeSelector={"disk": "ssd"}))
    bench.post("update", pod("a", nodeSelector={"disk": "ssd"}, metadata={"labels": {"x": "y"}}))
    bench.run(2)
    assert [bench.meta.phases(name) for name in ("a", "b", "c")] == [["Running"]] * 3
    assert len(bench.asked("query", "null/node/n1")) - asked <= 2


def test_a_cloud_without_the_node_keeps_no_pod_waiting_for_ever(bench: Bench) -> None:
    """What is deleted meanwhile never begins."""
    bench.start()
    labelled_in_the_cloud(bench)
    bench.silent.add("null/node/n1")
    for name in ("waits", "goes"):
        bench.tell("insert", pod(name, nodeSelector={"disk": "ssd"}))
    bench.tell("delete", pod("goes"), wait=30)
    assert bench.meta.phases("waits") == []
    bench.run(60)
    assert bench.meta.phases("waits") == ["Failed"]
    assert bench.meta.phases("goes") == []
    assert bench.running() == []


def test_a_pod_that_waits_for_the_node_does_not_begin_after_another_of_its_name(bench: Bench) -> None:
    """A cluster has one pod of a name, and the cloud does not delete the first."""
    bench.start()
    labelled_in_the_cloud(bench)
    bench.silent.add("null/node/n1")
    bench.tell("insert", pod(metadata={"uid": "first"}, nodeSelector={"disk": "ssd"}))
    bench.tell("insert", pod(metadata={"uid": "second"}))
    tell_node(bench, 2000)
    bench.run(90)
    assert [sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()] == ["second"]


@pytest.mark.parametrize(("source", "running"), [("edgecontroller", {"newer"}), ("metamanager", {"older", "newer"})])
def test_a_newer_pod_that_waits_for_the_node_takes_its_place_if_it_is_stored(
    bench: Bench, source: str, running: set[str]
) -> None:
    """The older one of its name came later; metamanager hands on what the store could not take."""
    bench.start()
    labelled_in_the_cloud(bench)
    bench.silent.add("null/node/n1")
    newer = {"uid": "newer", "creationTimestamp": "2026-01-01T00:01:00Z"}
    waits = pod(metadata=newer, nodeSelector={"disk": "ssd"})
    bench.bee.send("edged", bench.bee.message("default/pod/web", "insert", waits, source=source))
    bench.tell("insert", pod(metadata={"uid": "older", "creationTimestamp": "2026-01-01T00:00:00Z"}))
    tell_node(bench, 2000)
    bench.run(90)
    assert {sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()} == running


def test_taints_count_for_pods_that_come_later_only(bench: Bench) -> None:
    """The cloud's taint manager ends running pods; a kubelet does not."""
    bench.start(pod("before"))
    node = bench.meta.cloud["null/node/n1"]
    node["spec"] = {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}
    tell_node(bench, 2000)
    tolerates = [{"key": "maintenance", "operator": "Exists"}]
    for name, changes in (("after", {}), ("stands", {"tolerations": tolerates})):
        bench.post("insert", pod(name, **changes))
    bench.run(2)
    assert [bench.meta.phases(name)[-1] for name in ("before", "stands")] == ["Running", "Running"]
    assert bench.meta.statuses("after")[-1]["reason"] == "TaintToleration"


def test_after_a_restart_without_a_cloud_the_nodes_labels_come_from_the_store(bench: Bench) -> None:
    """Of a pod that the store brings as well."""
    bench.meta.connected = False
    labels = {"disk": "ssd"}
    bench.meta.objects["null/node/n1"] = {"metadata": {"name": "n1", "uid": "nu", "labels": labels}, "spec": {}}
    bench.meta.objects["default/pod/fits"] = pod("fits", nodeSelector={"disk": "ssd", "kubernetes.io/os": "linux"})
    bench.meta.objects["default/pod/other"] = pod("other", nodeSelector={"disk": "hdd"})
    bench.start(wait=2)
    bench.connection("cloud_connected", wait=2)
    assert bench.meta.phases("fits")[-1] == "Running"
    assert bench.meta.statuses("other")[-1]["reason"] == "NodeAffinity"


def test_a_deleted_node_is_recreated_immediately_with_a_lease_of_its_own(bench: Bench) -> None:
    """KubeEdge's deletion has no content."""
    bench.start(wait=1)
    bench.meta.cloud.clear()
    message = bench.bee.message("default/node/n1", "delete", None, source="edgecontroller")
    bench.bee.hive.send(ModuleName.EDGED, message)
    bench.run(0.5)
    assert set(bench.meta.cloud) == {"null/node/n1", "kube-node-lease/lease/n1"}


def test_reports_of_another_node_and_unreadable_ones_change_nothing(bench: Bench) -> None:
    bench.start()
    before = dict(bench.meta.cloud)
    for operation, resource, content in (
        ("delete", "null/node/n2", None),
        ("update", "null/node/n1", {"metadata": {"name": "n2"}}),
        ("update", "null/node/n1", "text"),
        ("delete", "null/node/n1", {"metadata": {"name": "n1", "uid": "before"}}),
    ):
        bench.bee.hive.send(ModuleName.EDGED, bench.bee.message(resource, operation, content, source="edgecontroller"))
    bench.run(0.5)
    assert bench.meta.cloud == before
    assert bench.bee.hive.restarts()[ModuleName.EDGED] == 0
