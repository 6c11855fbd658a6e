"""edged with device plug-ins, alone on the bus: the node counts devices, pods get them, wait, and give them back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edged.devices.model import Device, PluginOptions
from edged.errors import PluginCallError
from protos.podresources.v1 import api_pb2 as resources
from tests.edged.conftest import Bench, pod
from tests.edged.devices.fake_plugins import RESOURCE, FakeDevicePlugin, FakeDevicePlugins, refusal


class DeviceBench(Bench):
    """A bench with plug-ins."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.plugins = FakeDevicePlugins()
        super().__init__(root, devices=self.plugins, **settings)

    def plugin(self, *devices: str, **options: bool) -> FakeDevicePlugin:
        """A registered plug-in."""
        made = FakeDevicePlugin(self.bee.simulation, *devices, options=PluginOptions(**options))
        self.plugins.register(made)
        self.run(1)
        return made

    def node(self) -> dict[str, tuple[str | None, str | None]]:
        """Capacity and allocatable of extended resources, as the cloud knows them."""
        known: dict[str, dict[str, Any]] = {"capacity": {}, "allocatable": {}}
        for patch in self.meta.patches.get("null/nodepatch/n1", []):
            for key in known:
                known[key] |= patch.get("status", {}).get(key, {})
        names = sorted({name for amounts in known.values() for name in amounts if "/" in name})
        return {name: (known["capacity"].get(name), known["allocatable"].get(name)) for name in names}

    def status(self, name: str = "web") -> Any:
        """A pod's status."""
        return next(each for each in self.snapshots.pods if each.metadata.name == name).status

    def waits(self, name: str = "web") -> str:
        """Why its first container waits."""
        waiting = self.status(name).container_statuses[0].state.waiting
        return waiting.message if waiting is not None else ""

    def has(self, name: str = "main") -> str:
        """The container's devices, from the variable of its newest attempt."""
        found = [config for config in self.runtime.configs.values() if config.metadata.name == name]
        envs = {env.key: env.value.decode() for env in found[-1].envs}
        return envs.get("DEVICES", "")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[DeviceBench]:
    bench = DeviceBench(tmp_path)
    bench.start()
    yield bench
    bench.stop()


def container(count: int = 1, name: str = "main", **fields: Any) -> dict[str, Any]:
    limits = {RESOURCE: str(count)}
    return {"name": name, "image": "busybox:1.36", "resources": {"limits": limits, "requests": limits}, **fields}


def wanting(count: int = 1, name: str = "web", **fields: Any) -> dict[str, Any]:
    """A pod with a container that wants so many devices."""
    return pod(name, containers=[container(count)], **fields)


def was_here(made: dict[str, Any]) -> dict[str, Any]:
    """The pod with a status that shows its start: it is not admitted again."""
    return {**made, "status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}}


def test_the_node_counts_devices(bench: DeviceBench) -> None:
    """Immediately after devices come, break, or lose their plug-in; five minutes later they are gone."""
    plugin = bench.plugin("a", "b")
    assert bench.node() == {RESOURCE: ("2", "2")}
    plugin.say(Device("a"), Device("b", healthy=False))
    bench.run(0.5)
    assert bench.node() == {RESOURCE: ("2", "1")}
    plugin.go()
    bench.run(1)
    assert bench.node() == {RESOURCE: ("2", "0")}
    bench.run(290)
    assert bench.node() == {RESOURCE: ("2", "0")}
    bench.run(20)
    assert bench.node() == {RESOURCE: ("0", "0")}
    again = bench.plugin("c")
    assert bench.node() == {RESOURCE: ("1", "1")}
    again.go()
    bench.run(1)
    bench.plugin("c")
    assert bench.node() == {RESOURCE: ("1", "1")}, "the same devices as before are news"


def test_a_device_that_keeps_breaking_is_reported_once_a_second(bench: DeviceBench) -> None:
    """The first change is reported immediately; only a change of the ids is written."""
    plugin = bench.plugin("a")
    bench.run(5)
    file = bench.settings.root / "device-plugins" / "kubelet_internal_checkpoint"
    written, patched = file.stat().st_ino, len(bench.meta.patches["null/nodepatch/n1"])
    for number in range(40):
        plugin.say(Device("a", healthy=number % 2 == 1), Device("b", healthy=False))
        bench.run(0.1)
    assert 2 <= len(bench.meta.patches["null/nodepatch/n1"]) - patched <= 5
    bench.run(2)
    assert bench.node() == {RESOURCE: ("2", "1")}
    assert json.loads(file.read_bytes())["devices"][RESOURCE][1]["id"] == "b"
    assert file.stat().st_ino != written
    written = file.stat().st_ino
    plugin.say(Device("a", healthy=False), Device("b"))
    bench.run(2)
    assert file.stat().st_ino == written


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"version": "v1"}, "requested API version 'v1' is not supported"),
        ({"resource_name": "cpu"}, "the ResourceName 'cpu' is invalid"),
        ({"endpoint": "../dev.sock"}, "must be the name of a socket"),
    ],
)
def test_a_registration_that_is_refused(bench: DeviceBench, fields: dict[str, str], problem: str) -> None:
    assert problem in refusal(bench.plugins, FakeDevicePlugin(bench.bee.simulation, "a"), **fields)
    bench.run(1)
    assert bench.node() == {}


def test_a_plugin_that_does_not_answer_is_not_registered(bench: DeviceBench) -> None:
    plugin = FakeDevicePlugin(bench.bee.simulation, "a")
    plugin.there = False
    assert "GetDevicePluginOptions failed" in refusal(bench.plugins, plugin)
    bench.run(1)
    assert bench.node() == {}


def test_a_container_gets_what_its_devices_need(bench: DeviceBench) -> None:
    """Variables, which the container's own override, and device files; the plug-in is called once in a pod's life."""
    plugin = bench.plugin("a", "b", "c")
    env = [{"name": "MINE", "value": "1"}]
    bench.tell("insert", pod(containers=[container(2, env=env, args=["$(DEVICES)"])]))
    (config,) = bench.runtime.configs.values()
    assert {e.key: e.value for e in config.envs if e.key in ("DEVICES", "MINE")} == {"DEVICES": b"a,b", "MINE": b"1"}
    assert list(config.args) == ["a,b"]
    assert [(d.container_path, d.host_path, d.permissions) for d in config.devices] == [("/dev/x", "/dev/null", "rw")]
    bench.exit("main", 1, wait=30)
    assert bench.running() == ["main"]
    assert (bench.has(), plugin.allocated, plugin.prepared) == ("a,b", [["a", "b"]], [])


def test_a_containers_own_variable_wins(bench: DeviceBench) -> None:
    bench.plugin("a")
    bench.tell("insert", pod(containers=[container(env=[{"name": "DEVICES", "value": "mine"}])]))
    assert bench.has() == "mine"


@pytest.mark.parametrize("failure", [None, PluginCallError("Allocate", "a", "UNKNOWN", "no")])
def test_many_workers_give_no_device_twice(bench: DeviceBench, failure: Exception | None) -> None:
    """While the plug-in takes its time over one pod, others get other devices; what it did not give is free again."""
    plugin = bench.plugin("a", "b", "c", "d")
    plugin.seconds, plugin.failure = 5.0, failure
    for number in range(4):
        bench.tell("insert", wanting(1, f"pod-{number}"))
    bench.run(30)
    assert sorted(plugin.allocated) == [["a"], ["b"], ["c"], ["d"]]
    if failure is None:
        assert len(bench.running()) == 4
        return
    plugin.seconds, plugin.failure = 0.0, None
    bench.tell("insert", wanting(4, "next"), wait=1)
    assert bench.has() == "a,b,c,d"


def test_plugins_that_want_it_are_asked_more(bench: DeviceBench) -> None:
    """Which devices they would give, and before each start."""
    plugin = bench.plugin("a", "b", "c", preferred=True, pre_start=True)
    plugin.prefers = frozenset("c")
    bench.tell("insert", wanting())
    assert (bench.has(), plugin.asked, plugin.prepared) == ("c", [(["a", "b", "c"], [], 1)], [["c"]])
    bench.exit("main", 1, wait=30)
    assert plugin.prepared == [["c"], ["c"]]


def test_the_next_container_gets_the_devices_of_an_init_container(bench: DeviceBench) -> None:
    plugin = bench.plugin("a", "b")
    bench.tell("insert", pod(initContainers=[container(1, "init")], containers=[container(2)]))
    bench.exit("init", 0, wait=5)
    assert (bench.has("init"), bench.has()) == ("a", "a,b")
    assert plugin.allocated == [["a"], ["a", "b"]]


def test_a_node_that_has_too_few_refuses_the_pod(bench: DeviceBench) -> None:
    bench.plugin("a")
    bench.tell("insert", wanting(2))
    assert (bench.status().phase, bench.status().reason) == ("Failed", f"OutOf{RESOURCE}")


def test_a_plugin_that_does_not_give_them_ends_the_pod(bench: DeviceBench) -> None:
    """For good, with a kubelet's reason; its devices are free again."""
    plugin = bench.plugin("a")
    plugin.failure = PluginCallError("Allocate", "a", "INTERNAL", "the device is on fire")
    bench.tell("insert", wanting(), wait=1)
    status = bench.status()
    assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
    assert status.message.startswith("Pod was rejected: Allocate failed due to ")
    assert "the device is on fire" in status.message
    assert [e["message"] for e in bench.meta.events.values() if e["reason"] == status.reason] == [status.message]
    assert (bench.runtime.sandboxes, status.container_statuses) == ({}, ())
    plugin.failure = None
    bench.tell("insert", wanting(1, "next"), wait=1)
    assert bench.has() == "a"


def test_devices_of_a_pod_that_ends_are_the_next_ones(bench: DeviceBench) -> None:
    """The next pod is not refused but waits, and starts as soon as they are free."""
    bench.plugin("a")
    bench.tell("insert", wanting(terminationGracePeriodSeconds=20))
    bench.runtime.obeys = float("inf")
    gone = wanting(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 20})
    bench.tell("update", gone)
    bench.tell("insert", wanting(1, "next"), wait=5)
    assert "Requested: 1, Available: 0; waiting until devices are free" in bench.waits("next")
    bench.run(40)
    assert bench.status("next").phase == "Running"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_resource_without_a_plugin_is_a_number(bench: DeviceBench, *, is_known: bool) -> None:
    """An administrator has written it into the Node: a pod with a limit of it starts, now and after a restart; also one
    that comes before the Node does.
    """
    bench.run(1)
    node = bench.meta.cloud["null/node/n1"]
    capacity = {**node["status"]["capacity"], RESOURCE: "5"}
    metadata = {**node["metadata"], "namespace": "null", "resourceVersion": "9999"}
    written = {**node, "metadata": metadata, "status": {**node["status"], "capacity": capacity}}
    bench.meta.cloud["null/node/n1"] = written
    if is_known:
        bench.tell("update", written, "node")
    for begun in (wanting(1, "new"), was_here(wanting(1, "old"))):
        bench.tell("insert", begun, wait=1)
        assert bench.status(begun["metadata"]["name"]).phase == "Running"
    assert bench.has() == ""


def test_a_plugin_that_has_vanished_is_waited_for_by_the_next_agent_too(bench: DeviceBench) -> None:
    bench.plugin("a").go()
    bench.run(600)
    bench.poison(wait=600)
    bench.tell("insert", was_here(wanting()), wait=1)
    assert "its device plug-in is not registered" in bench.waits()
    assert bench.node() == {RESOURCE: ("0", "0")}


def test_a_pod_waits_for_a_plugin_that_is_away(bench: DeviceBench) -> None:
    """An Event says so."""
    plugin = bench.plugin("a", "b")
    bench.tell("insert", wanting())
    assert bench.has() == "a"
    plugin.go()
    bench.run(1)
    bench.tell("insert", wanting(1, "next"))
    assert "its device plug-in is not registered" in bench.waits("next")
    bench.run(1)
    told = [message for reason, message in bench.meta.told("next") if reason == "FailedSync"]
    assert told == [f"error syncing pod: {bench.waits('next')}"]
    bench.plugin("a", "b")
    assert bench.status("next").phase == "Running"


def test_a_pod_that_starts_again_waits_for_its_own_devices(bench: DeviceBench) -> None:
    """A container that is started again in a sandbox that is there does not."""
    plugin = bench.plugin("a", "b")
    bench.tell("insert", wanting())
    plugin.say(Device("a", healthy=False), Device("b"))
    bench.exit("main", 1, wait=30)
    assert bench.running() == ["main"]
    bench.runtime.end_sandbox(*bench.runtime.sandboxes)
    bench.run(30)
    assert "previously allocated devices are no longer healthy: a" in bench.waits()
    plugin.say(Device("a"), Device("b"))
    bench.run(2)
    assert (bench.has(), plugin.allocated) == ("a", [["a"]])


def test_two_pods_do_not_wait_for_each_others_half(bench: DeviceBench) -> None:
    """The devices of a pod that must wait are freed."""
    bench.plugin("a", "b", "c")
    bench.tell("insert", was_here(pod("big", containers=[container(2, "one"), container(2, "two")])))
    assert "Available: 1" in bench.waits("big")
    bench.tell("insert", was_here(wanting(3, "all")), wait=1)
    assert bench.has() == "a,b,c"


def test_the_next_agent_knows_who_has_what(bench: DeviceBench, tmp_path: Path) -> None:
    """It calls no plug-in again, and allocates no taken device."""
    bench.plugin("a", "b")
    bench.tell("insert", wanting())
    bench.meta.objects["default/pod/web"] = wanting()
    bench.poison(wait=5)
    assert bench.node() == {RESOURCE: ("0", "0")}
    plugin = bench.plugin("a", "b")
    bench.tell("insert", wanting(1, "next"))
    assert bench.status("next").phase == "Running"
    assert (plugin.allocated, bench.node()) == ([["b"]], {RESOURCE: ("2", "2")})
    file = bench.settings.root / "device-plugins" / "kubelet_internal_checkpoint"
    assert set(json.loads(file.read_bytes())["pods"]) == {"uid-web", "uid-next"}
    bench.tell("delete", wanting(), wait=40)
    assert set(json.loads(file.read_bytes())["pods"]) == {"uid-next"}


def test_devices_of_a_pod_that_nobody_knows_any_more_are_freed(tmp_path: Path) -> None:
    """An agent that was killed in the middle leaves nothing but a line in the file."""
    directory = tmp_path / "edged" / "device-plugins"
    directory.mkdir(parents=True)
    file = directory / "kubelet_internal_checkpoint"
    grant = {"devices": [{"id": "a"}]}
    file.write_text(json.dumps({"pods": {"lost": {"main": {RESOURCE: grant}}}}))
    bench = DeviceBench(tmp_path)
    bench.meta.complete = True
    bench.start(wait=5)
    assert json.loads(file.read_bytes())["pods"] == {}
    bench.stop()


def test_the_pod_resources_api_lists_the_devices_of_pods(bench: DeviceBench) -> None:
    """The devices of each container that may run, with their NUMA nodes; and the healthy ones."""
    plugin = bench.plugin("a")
    plugin.say(Device("a", numa=(0, 1)), Device("b"), Device("c", healthy=False))
    bench.run(1)
    bench.tell("insert", pod(initContainers=[container(1, "init")], containers=[container(2)]))

    def ask(method: str, request: Any) -> Any:
        return bench.plugins.ask("v1.PodResourcesLister", method, request)

    def shown(devices: Any) -> list[tuple[str, list[str], list[int]]]:
        return [(d.resource_name, list(d.device_ids), [n.ID for n in d.topology.nodes]) for d in devices]

    (listed,) = ask("List", resources.ListPodResourcesRequest()).pod_resources
    two = [(RESOURCE, ["a"], [0]), (RESOURCE, ["a"], [1]), (RESOURCE, ["b"], [])]
    assert (listed.name, listed.namespace, [c.name for c in listed.containers]) == ("web", "default", ["main"])
    assert shown(listed.containers[0].devices) == two
    assert ask("Get", resources.GetPodResourcesRequest(pod_name="web", pod_namespace="default")).pod_resources == listed
    with pytest.raises(Exception, match="pod nobody in namespace default not found"):
        ask("Get", resources.GetPodResourcesRequest(pod_name="nobody", pod_namespace="default"))
    assert shown(ask("GetAllocatableResources", resources.AllocatableResourcesRequest()).devices) == two


def test_a_node_without_devices_has_no_sockets(tmp_path: Path) -> None:
    """Pods that want some, and began here before, run without."""
    bench = Bench(tmp_path)
    bench.start(was_here(wanting()))
    assert bench.running() == ["main"]
    assert not (bench.settings.root / "device-plugins").exists()
    bench.stop()
