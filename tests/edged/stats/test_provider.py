"""A summary of a node, from a runtime in memory and made-up sources."""

from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.cgroups.hierarchies import Hierarchy
from edged.cri.contract import ContainerId
from edged.pods.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.settings.cgroups import CgroupSettings
from edged.stats.model import PodStats
from edged.stats.procfs_usage import ProcfsUsage
from edged.stats.provider import DISK_PERIOD, FRESH, CgroupUsage, StatsProvider
from edged.volumes.directory_usage import DirectoryCounts
from modules.apimachinery.types import Pod, encode, from_value
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as cri

LABELS = {POD_NAME: "p", POD_NAMESPACE: "ns", POD_UID: "u"}
LAYER = 5000


class CountingRuntime(FakeRuntime):
    """Every container has used a second of processor time for each second of the clock, and 1 MiB."""

    def stats_of(self, container_id: ContainerId) -> cri.ContainerStats:
        now = self._clock.now_ns()
        stats = super().stats_of(container_id)
        stats.cpu.timestamp = now
        stats.cpu.usage_core_nano_seconds.value = now - 1_700_000_000_000_000_000
        stats.memory.working_set_bytes.value = 1 << 20
        stats.memory.available_bytes.value = 1 << 22
        stats.writable_layer.used_bytes.value = LAYER
        return stats


class Node:
    """A pod with a running and an ended container."""

    def __init__(self, directory: Path) -> None:
        self.simulation = Simulation()
        self.runtime = CountingRuntime(self.simulation, ["image"])
        self.paths = PodPaths(directory / "root", directory / "logs")
        self.directory = directory
        self.local_volumes: dict[Path, str] = {}
        self.pods: tuple[Pod, ...] = (
            from_value(
                Pod,
                {
                    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
                    "spec": {
                        "containers": [{"name": "a"}, {"name": "b"}],
                        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
                    },
                    "status": {
                        "startTime": "2026-11-20T01:00:00Z",
                        "containerStatuses": [
                            {"name": "a", "state": {"running": {"startedAt": "2026-11-20T01:00:05Z"}}}
                        ],
                    },
                },
            ),
        )
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="p", uid="u"), labels=LABELS)
        sandbox = self.runtime.run_pod_sandbox(config)
        for name in "ab":
            made = cri.ContainerConfig(
                metadata=cri.ContainerMetadata(name=name), image=cri.ImageSpec(image="image"),
                labels={**LABELS, CONTAINER_NAME: name},
            )  # fmt: skip
            self.runtime.start_container(self.runtime.create_container(sandbox, made, config))
        self.runtime.end("b", 0)
        self.provider = self.provided(None)

    def provided(self, hierarchies: CgroupUsage | None, machine: ProcfsUsage | None = None) -> StatsProvider:
        return StatsProvider(
            "n1", self.paths, self.simulation.clock, lambda: self.pods, cgroups=CgroupSettings(),
            hierarchies=hierarchies, machine=machine, local_volumes=lambda: self.local_volumes,
        )  # fmt: skip

    def pod(self, *, disk: bool = True) -> PodStats:
        (pod,) = self.provider.summary(self.runtime, disk=disk).pods
        return pod


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_pod_without_a_cgroup_is_the_sum_of_its_running_containers(node: Node) -> None:
    """Ended containers that the runtime still lists are not among them."""
    pod = node.pod()
    assert [container.name for container in pod.containers] == ["a"]
    assert pod.containers[0].start_time == "2026-11-20T01:00:05Z"
    assert pod.memory is not None
    assert pod.memory.working_set_bytes == 1 << 20
    assert pod.containers[0].memory is not None
    assert pod.containers[0].memory.available_bytes == 1 << 22
    assert pod.process_stats is None


def test_the_average_since_the_look_before(node: Node) -> None:
    """A second of processor time each second is one core; the first measurement has no rate."""
    first = node.pod().cpu
    assert first is not None
    assert first.usage_nano_cores is None
    node.simulation.run_for(10)
    cpu = node.pod().cpu
    assert cpu is not None
    assert cpu.usage_nano_cores == 1_000_000_000


def test_a_pods_own_cgroup_knows_better(node: Node, tmp_path: Path) -> None:
    """It includes usage outside containers (the sandbox), and counts processes."""
    group = tmp_path / "cgroup/kubepods/besteffort/podu"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("3000000")
    (group / "pids.current").write_text("3")
    hierarchies = CgroupUsage([Hierarchy(tmp_path / "cgroup", ("memory", "pids"), unified=True)])
    node.provider = node.provided(hierarchies)
    pod = node.pod()
    assert pod.memory is not None
    assert pod.memory.usage_bytes == 3000000
    assert b'"process_stats":{"process_count":3}' in encode(pod)


@pytest.mark.parametrize(("own", "disk", "received"), [(True, True, 11), (True, False, None), (False, True, None)])
def test_the_traffic_of_a_pod_is_what_one_of_its_processes_sees(
    node: Node, tmp_path: Path, own: bool, disk: bool, received: int | None
) -> None:
    """A process is in the cgroup of a container, at any depth. The machine's network is no pod's."""
    node.pods = (replace(node.pods[0], spec=replace(node.pods[0].spec, host_network=not own)),)
    group = tmp_path / "cgroup/kubepods/besteffort/podu"
    for place, processes in (("", ""), ("sandbox", ""), ("container/inner", "42\n43\n")):
        (group / place).mkdir(parents=True, exist_ok=True)
        (group / place / "cgroup.procs").write_text(processes)
    (group / "memory.current").write_text("3000000")
    (tmp_path / "proc/42/net").mkdir(parents=True)
    (tmp_path / "proc/42/net/dev").write_text("h1\nh2\n  eth0: 11 5 1 0 0 0 0 0 22 6 2 0 0 0 0 0\n")
    (tmp_path / "proc/42/net/route").write_text("Iface\tDestination\neth0\t00000000\n")
    node.provider = node.provided(
        CgroupUsage([Hierarchy(tmp_path / "cgroup", ("memory", "pids"), unified=True)]), ProcfsUsage(tmp_path / "proc")
    )
    network = node.pod(disk=disk).network
    assert (network and (network.name, network.rx_bytes)) == (received and ("eth0", received))


def test_the_disk_usage_of_a_pod(node: Node) -> None:
    """Its containers' layers and logs, and its volumes, each by its name and claim. What outlives the pod is none of
    its ephemeral storage, whose limit would end it, also on the same disk; drivers' volumes are the drivers'.
    """
    log = node.paths.logs / "ns_p_u" / "a" / "0.log"
    volumes = node.paths.volumes(PodUid("u"))
    own, local = volumes / "kubernetes.io~empty-dir/own", volumes / "kubernetes.io~local-volume/pv1"
    for directory in (log.parent, own, local, volumes / "kubernetes.io~csi/pv2/mount"):
        directory.mkdir(parents=True)
        (directory / "file").write_bytes(b"x" * 20_000)
    node.local_volumes = {local: "data"}
    node.runtime.images_directory = str(node.directory)
    pod = node.pod()
    logs, ephemeral = pod.containers[0].logs, pod.ephemeral_storage
    assert logs is not None
    assert (logs.used_bytes or 0) >= 20_000
    assert [(each.name, each.pvc_ref and each.pvc_ref.name) for each in pod.volume] == [
        ("own", None),
        ("data", "claim"),
    ]
    assert 20_000 <= (pod.volume[0].used_bytes or 0) < 60_000
    assert (pod.volume[1].capacity_bytes or 0) > 0
    assert ephemeral is not None
    assert (ephemeral.used_bytes or 0) == LAYER + (logs.used_bytes or 0) + (pod.volume[0].used_bytes or 0)
    assert (ephemeral.capacity_bytes or 0) > 0
    layer = pod.containers[0].rootfs
    assert layer is not None
    assert layer.used_bytes == LAYER
    assert (layer.capacity_bytes or 0) > 0, "of the file system of images"


def test_files_are_counted_seldom(node: Node) -> None:
    """Once a minute, however many requests there are."""
    node.pod()
    volume = node.paths.root / "pods/u/volumes/kubernetes.io~empty-dir/data"
    volume.mkdir(parents=True)
    node.simulation.run_for(DISK_PERIOD / 2)
    assert node.pod().volume == ()
    node.simulation.run_for(DISK_PERIOD)
    assert len(node.pod().volume) == 1


def test_files_are_counted_anew_on_demand(node: Node) -> None:
    """Also without files such a summary replaces every older one."""
    node.pod()
    (node.paths.root / "pods/u/volumes/kubernetes.io~empty-dir/data").mkdir(parents=True)
    whole = node.provider.summary(node.runtime, anew=True)
    assert len(whole.pods[0].volume) == 1
    node.provider.summary(node.runtime, disk=False, anew=True)
    assert node.provider.summary(node.runtime) is not whole


def test_nothing_is_kept_of_a_pod_that_is_gone(node: Node) -> None:
    node.pod()
    node.pods = ()
    (counts,) = node.provider._disks._counts.values()
    node.simulation.run_for(FRESH)
    with patch.object(DirectoryCounts, "keep", autospec=True) as keep:
        assert node.provider.summary(node.runtime).pods == ()
    keep.assert_called_once_with(counts, ())  # else the directories of a count that is not at its end stay open
    assert (node.provider._disks._counted, node.provider._disks._counts) == ({}, {})


def test_a_volume_on_another_file_system_is_none_of_the_nodes(node: Node) -> None:
    """And a link is no volume."""
    plugin = node.paths.root / "pods/u/volumes/kubernetes.io~empty-dir"
    for name in ("here", "mounted"):
        (plugin / name).mkdir(parents=True)
        (plugin / name / "file").write_bytes(b"x" * 20_000)
    (plugin / "link").symlink_to("/")
    with patch("edged.stats.pod_disks._device", lambda path: int(path.name == "mounted")):
        pod = node.pod()
    here, mounted = pod.volume
    assert (here.name, mounted.name) == ("here", "mounted")
    assert (here.capacity_bytes or 0) > 0
    assert (mounted.capacity_bytes or 0) > 0
    assert pod.ephemeral_storage is not None
    assert (pod.ephemeral_storage.used_bytes or 0) == LAYER + (here.used_bytes or 0)


def test_a_fresh_summary_is_reused(node: Node) -> None:
    """And the runtime is not asked; a little later it is."""
    first = node.provider.summary(node.runtime)
    calls = node.runtime.calls.total()
    assert node.provider.summary(node.runtime) is first
    assert node.provider.summary(node.runtime, disk=False) is first
    assert node.runtime.calls.total() == calls
    node.simulation.run_for(FRESH)
    assert node.provider.summary(node.runtime) is not first


def test_without_files_nothing_of_the_disk_is_reported(node: Node) -> None:
    pod = node.pod(disk=False)
    assert (pod.ephemeral_storage, pod.volume) == (None, ())
    assert node.provider.summary(node.runtime, disk=False).node.fs is None


def test_the_node(node: Node) -> None:
    """Its name, the real sizes of this machine, and the agent itself."""
    stats = node.provider.summary(node.runtime).node
    assert stats.node_name == "n1"
    assert [each.name for each in stats.system_containers] == ["kubelet"]
    assert stats.memory is not None
    assert (stats.memory.available_bytes or 0) > 0
    raw = encode(stats)
    for key in (b'"nodeName"', b'"systemContainers"', b'"usageCoreNanoSeconds"', b'"workingSetBytes"', b'"rlimit"'):
        assert key in raw
