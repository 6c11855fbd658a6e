"""edged alone on the bus: the node itself, which registers, renews its lease and says how it is."""

from beehive import Message, ModuleName
from tests.edged.conftest import Bench, unavailable


def test_the_node_registers_takes_a_lease_and_is_ready(bench: Bench) -> None:
    bench.start()
    bench.run(1)
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
    bench.start()
    bench.run(1)
    assert bench.meta.cloud["kube-node-lease/lease/n1"]["metadata"]["ownerReferences"][0]["uid"] == "old"
    assert bench.meta.patches["null/nodepatch/n1"]


def test_the_node_registers_when_the_cloud_comes(bench: Bench) -> None:
    bench.meta.connected = False
    bench.start()
    bench.run(30)
    assert not bench.meta.cloud
    bench.connection("cloud_connected")
    bench.run(0.5)
    assert "null/node/n1" in bench.meta.cloud


def test_the_node_registers_at_once_when_the_cloud_comes_before_its_absence_is_heard_of(bench: Bench) -> None:
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
    bench.start()
    bench.run(1)
    bench.runtime.fail("status", unavailable(), times=3)
    bench.run(11)
    conditions = [c for patch in bench.meta.patches["null/nodepatch/n1"] for c in patch["status"]["conditions"]]
    ready = next(c for c in conditions if c["type"] == "Ready" and c.get("status") == "False")
    assert "container runtime is down" in ready["message"]


def test_an_unchanged_node_status_is_sent_every_hour_only(bench: Bench) -> None:
    bench.start()
    bench.run(3500)
    before = len(bench.meta.patches.get("null/nodepatch/n1", []))
    assert before <= 1
    bench.run(7300)
    assert len(bench.meta.patches["null/nodepatch/n1"]) - before in (2, 3)
