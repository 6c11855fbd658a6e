"""edged alone on the bus, on a node that runs short."""

import errno
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from msgspec.structs import replace

from edged.cri.errors import UnavailableError
from edged.eviction_api.thresholds import EvictionSettings, parse_thresholds
from edged.eviction_api.usage import ContainerUsage, DiskConsumption, PodUsage
from edged.node.machine import FileSystem, MachineError
from edged.settings.gc import GcSettings, ImagePolicy
from edged.volumes import PodVolumes, VolumeError
from modules.lab.doubles.container_runtime.machine_info import PLENTY
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import IMAGE, Bench, pod

MIB = 1 << 20
GIB = 1 << 30
STARVED = replace(PLENTY, memory_available=50 * MIB)
FULL = replace(PLENTY, node_fs=FileSystem(1 * GIB, 100 * GIB, 2_000_000, 4_000_000))
EVICTION = EvictionSettings(
    thresholds=parse_thresholds(
        {"memory.available": "100Mi", "nodefs.available": "10%", "pid.available": "100"},
        {"memory.available": "1Gi"},
        {"memory.available": 60.0},
    ),
    longest_grace=20,
)


@pytest.fixture
def node(tmp_path: Path) -> Bench:
    """Two pods run; `big` uses more."""
    return two_pods(tmp_path, EVICTION)


def two_pods(root: Path, eviction: EvictionSettings, **changes: Any) -> Bench:
    """Runs the two pods, with changes of their specs."""
    bench = Bench(root, eviction=eviction)
    bench.start()
    for name in ("small", "big"):
        bench.tell("insert", a_pod(name, **changes))
    bench.figures.usages = (
        PodUsage("uid-small", 10 * MIB, 2, (ContainerUsage("small", 10 * MIB),)),
        PodUsage("uid-big", 90 * MIB, 9, (ContainerUsage("big", 90 * MIB),)),
    )
    return bench


def a_pod(name: str, **changes: Any) -> dict[str, Any]:
    containers = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]}]
    return pod(name, **{"containers": containers, **changes})


def test_short_of_memory_the_largest_goes_immediately_with_the_reason(node: Bench) -> None:
    node.figures.left = STARVED
    assert node.running(after=12) == ["small"]
    status = node.meta.statuses("big")[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container big was using 90Mi, request is 0, has larger consumption of memory. "
    )
    said = [each for part in node.meta.statuses("big") for each in part.get("conditions", ())]
    target = next(each for each in said if each["type"] == "DisruptionTarget" and "status" in each)
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    assert node.conditions == {"MemoryPressure": "KubeletHasInsufficientMemory", "Ready": "EdgeReady"}
    node.run(2)
    assert ("NodeHasInsufficientMemory", "Node n1 status is now: NodeHasInsufficientMemory") in node.meta.told("n1")
    assert ("EvictionThresholdMet", "Attempting to reclaim memory") in node.meta.told("n1")
    assert "Evicted" in dict(node.meta.told("big"))


def test_no_other_goes_before_the_first_has_ended_and_one_a_round(node: Bench) -> None:
    node.runtime.obeys = 1.9
    node.figures.left = STARVED
    assert node.running(after=11) == ["big", "small"], "it is ending"
    assert node.running(after=2) == ["small"]
    node.figures.left = PLENTY
    assert node.running(after=60) == ["small"]


def test_as_long_as_it_is_short_the_next_follows_and_critical_pods_stay(node: Bench) -> None:
    node.tell("insert", a_pod("system", priority=2_000_000_000))
    node.figures.left = STARVED
    assert node.running(after=120) == ["system"]


def test_a_soft_threshold_without_a_time_to_wait_gives_no_time_either(tmp_path: Path) -> None:
    """It is a hard one then (kubelet's isHardEvictionThreshold)."""
    soft = {"memory.available": "1Gi"}, {"memory.available": 0.0}
    node = two_pods(tmp_path, replace(EVICTION, thresholds=parse_thresholds({}, *soft)))
    node.runtime.obeys = 15.0
    node.figures.left = replace(PLENTY, memory_available=500 * MIB)
    assert node.running(after=14) == ["small"]


def test_a_soft_threshold_waits_and_gives_time(node: Bench) -> None:
    node.runtime.obeys = 15.0
    node.figures.left = replace(PLENTY, memory_available=500 * MIB)
    node.run(11)
    assert "MemoryPressure" in node.conditions
    node.bee.clock.jump_wall(3600.0)
    assert node.running(after=57) == ["big", "small"]
    node.run(5)
    assert node.running(after=10) == ["big", "small"], "it ends within the longest grace period, 20 s"
    assert node.running(after=15) == ["small"]


def test_no_other_pod_goes_as_long_as_the_first_has_time_to_end(tmp_path: Path) -> None:
    """Its grace period counts, and then some seconds for its volumes."""
    node = two_pods(tmp_path, replace(EVICTION, longest_grace=100), terminationGracePeriodSeconds=100)
    node.runtime.obeys = 95.0
    node.figures.left = replace(PLENTY, memory_available=500 * MIB)
    node.run(11 + 60 + 10)
    assert "Evicted" in dict(node.meta.told("big"))
    node.figures.usages = (PodUsage("uid-small", 10 * MIB, 2), PodUsage("uid-big", 1 * MIB, 9))
    node.figures.left = replace(FULL, memory_available=500 * MIB)
    assert node.running(after=80) == ["big", "small"]
    assert "DiskPressure" in node.conditions, "the node is measured while it waits"
    node.figures.left = PLENTY
    assert node.running(after=60) == ["small"]
    assert "Evicted" not in dict(node.meta.told("small"))


def test_a_condition_lasts_for_its_transition_period(node: Bench) -> None:
    node.figures.left = STARVED
    node.run(12)
    node.figures.left = PLENTY
    node.run(280)
    assert "MemoryPressure" in node.conditions
    node.run(30)
    assert node.conditions == {"Ready": "EdgeReady"}


def test_short_of_memory_pods_that_ask_for_none_are_refused(node: Bench) -> None:
    node.figures.left = STARVED
    node.run(12)
    node.tell("insert", a_pod("careless"))
    asking = {"name": "asking", "image": "busybox:1.36", "resources": {"requests": {"memory": "1Mi"}}}
    node.tell("insert", pod("asking", containers=[asking]))
    bears = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
    node.tell("insert", a_pod("patient", tolerations=[bears]), wait=0.5)
    status = node.meta.statuses("careless")[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
    assert {"asking", "patient"} <= set(node.running())


def test_short_of_disk_all_new_pods_are_refused_but_critical_ones(node: Bench) -> None:
    node.figures.left = FULL
    node.run(11)
    asking = {"name": "asking", "image": "busybox:1.36", "resources": {"requests": {"memory": "1Mi"}}}
    node.tell("insert", pod("asking", containers=[asking]))
    node.tell("insert", a_pod("system", priority=2_000_000_000), wait=0.5)
    assert node.meta.statuses("asking")[-1]["reason"] == "Evicted"
    assert "system" in node.running()


class Freeing:
    """A disk that is full until an image is removed."""

    def __init__(self, bench: Bench, *images: str) -> None:
        self._bench = bench
        self._images = set(images)

    def usage(self, _root: Path, _images: Path | None = None) -> object:
        there = {each.repo_tags[0] for each in self._bench.runtime.list_images()}
        return FULL if self._images & there else PLENTY


def test_short_of_disk_unused_images_and_dead_containers_go_before_any_pod(tmp_path: Path) -> None:
    bench = Bench(tmp_path, eviction=EVICTION, gc=GcSettings(images=ImagePolicy(minimum_age=0.0)))
    bench.start()
    done = {"name": "job", "image": "busybox:1.36", "command": ["exit", "0"]}
    bench.tell("insert", pod("job", containers=[done], restartPolicy="Never"))
    bench.tell("insert", a_pod("web"), wait=5)
    bench.runtime.pull_image(cri.ImageSpec(image="unused"))
    bench.figures.usage = Freeing(bench, "unused").usage  # type: ignore[assignment,method-assign]
    bench.run(12)
    assert [each.repo_tags[0] for each in bench.runtime.list_images()] == [IMAGE]
    assert bench.running() == ["web"]
    assert [each.metadata.name for each in bench.runtime.containers.values()] == ["web"]
    bench.run(5)
    job = next(each for each in bench.snapshots.pods if each.metadata.name == "job")
    ended = job.status.container_statuses[0].state.terminated
    assert (job.status.phase, ended and ended.exit_code) == ("Succeeded", 0), "its end is not forgotten"


def test_pods_are_evicted_until_the_minimum_of_disk_is_reclaimed(tmp_path: Path) -> None:
    """The threshold itself is no longer met after the first: the condition would last for ever."""
    thresholds = parse_thresholds({"nodefs.available": "10%"}, minimum_reclaim={"nodefs.available": "5%"})
    node = two_pods(tmp_path, EvictionSettings(thresholds=thresholds, transition=30.0))
    node.figures.left = FULL
    node.run(12)
    assert len(node.running()) == 1
    node.figures.left = replace(FULL, node_fs=replace(FULL.node_fs, available=12 * GIB))
    node.run(60)
    assert (node.running(), "DiskPressure" in node.conditions) == ([], True)
    node.figures.left = replace(FULL, node_fs=replace(FULL.node_fs, available=15 * GIB))
    node.run(45)
    assert "DiskPressure" not in node.conditions


def test_a_pod_over_its_limit_of_disk_is_evicted(node: Bench) -> None:
    greedy = {"name": "greedy", "image": "busybox:1.36", "resources": {"limits": {"ephemeral-storage": "1Mi"}}}
    node.tell("insert", pod("greedy", containers=[greedy]))
    node.tell("insert", pod("system", containers=[{**greedy, "name": "system"}], priority=2_000_000_000))
    node.figures.usages = tuple(
        PodUsage(uid, storage=DiskConsumption(2 * MIB, 3)) for uid in ("uid-greedy", "uid-system")
    )
    node.run(14)
    status = node.meta.statuses("greedy")[-1]
    assert (status["reason"], status["message"]) == (
        "Evicted",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
    )
    assert not [each for each in status["conditions"] if each["type"] == "DisruptionTarget"], "it is its own fault"
    assert node.running() == ["big", "small", "system"]


def test_a_machine_that_cannot_be_looked_at_ends_nobody_and_is_looked_at_again(
    node: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_root: Path, _images: Path | None = None) -> object:
        raise MachineError("read the free resources", "/proc")

    with monkeypatch.context() as patched:
        patched.setattr(node.figures, "usage", broken)
        node.run(60)
    assert caplog.text.count("cannot look at what is left on the node") == 1, "once, not at each look"
    node.figures.left = STARVED
    assert node.running(after=12) == ["small"]


def test_a_runtime_that_does_not_say_where_images_are_is_asked_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.runtime.fail("image_fs_info", UnavailableError("ImageFsInfo", "", grpc.StatusCode.UNAVAILABLE, "away"))
    bench.runtime.images_directory = str(tmp_path)
    bench.start(wait=25)
    assert bench.runtime.calls["image_fs_info"] == 2


class Filled:
    """A disk that is full as long as a pod has its volume, and what is counted of it: by the old count nothing."""

    def __init__(self, bench: Bench, name: str) -> None:
        self._volumes = bench.settings.root / "pods" / f"uid-{name}" / "volumes"
        self._name = name

    def usage(self, _root: Path, _images: Path | None = None) -> object:
        return FULL if self._volumes.exists() else PLENTY

    def pods(self, _runtime: object, *, anew: bool = False) -> tuple[PodUsage, ...]:
        size = GIB if anew and self._volumes.exists() else 0
        others = tuple(PodUsage(f"uid-{name}", storage=DiskConsumption(4096, 1)) for name in ("a", "z"))
        return (PodUsage(f"uid-{self._name}", storage=DiskConsumption(size, 1)), *others)


@pytest.fixture
def filled(tmp_path: Path) -> Bench:
    """Three pods; `filler` fills the whole disk with its volume."""
    bench = Bench(tmp_path, eviction=EVICTION)
    bench.start()
    disk = Filled(bench, "filler")
    bench.figures.usage = disk.usage  # type: ignore[assignment,method-assign]
    bench.figures.pods = disk.pods  # type: ignore[method-assign,assignment]
    bench.tell("insert", a_pod("a"))
    bench.tell("insert", a_pod("filler", volumes=[{"name": "v", "emptyDir": {}}]))
    bench.tell("insert", a_pod("z"))
    return bench


def test_only_the_pod_that_filled_the_disk_is_evicted_with_its_files(filled: Bench) -> None:
    """The evicted pod's volume stayed, so the disk was still full at the next check, and an innocent pod was evicted
    too.
    """
    filled.run(120)
    assert filled.runtime.running() == ["a", "z"]
    assert filled.meta.statuses("filler")[-1]["reason"] == "Evicted"


@pytest.mark.parametrize(("seconds", "left"), [(25, ["a", "z"]), (60, [])])
def test_no_other_pod_is_evicted_while_the_files_of_one_are_removed(
    filled: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float, left: list[str]
) -> None:
    """For half a minute; after that the others are, as it seems to help nobody to wait."""
    with monkeypatch.context() as patched:
        busy = Mock(side_effect=VolumeError("unmount a volume", "v", "it is busy", retryable=True))
        patched.setattr(PodVolumes, "remove", busy)
        filled.run(seconds)
        assert filled.runtime.running() == left
    filled.run(120)
    assert filled.runtime.running() == left


def test_a_full_disk_is_measured_immediately(node: Bench) -> None:
    """When a worker or metamanager cannot write, the cloud learns of DiskPressure within a second."""
    node.run(2)
    node.figures.left = FULL
    node.bee.send("edged", node.bee.message("node/disk", "update", None, source="metamanager"))
    node.run(0.5)
    assert "DiskPressure" in node.conditions
    patches = next(patches for key, patches in node.meta.patches.items() if "nodepatch" in key)
    told = {each["type"]: each["status"] for each in patches[-1]["status"]["conditions"] if "status" in each}
    assert told["DiskPressure"] == "True"


def test_a_worker_that_finds_no_room_too(node: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    node.run(2)
    node.figures.left = FULL
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(PodVolumes, "prepare", Mock(side_effect=full))
        node.tell("insert", a_pod("late"), wait=0.5)
    assert "DiskPressure" in node.conditions


def test_garbage_that_cannot_be_removed_does_not_prevent_an_eviction(tmp_path: Path) -> None:
    bench = Bench(tmp_path, eviction=EVICTION, gc=GcSettings(images=ImagePolicy(minimum_age=0.0)))
    bench.start(a_pod("web"))
    away = UnavailableError("ListImages", "", grpc.StatusCode.UNAVAILABLE, "away")
    bench.figures.left = FULL
    bench.runtime.fail("list_images", away, times=100)
    assert bench.running(after=25) == []
