"""The order of eviction, and which pods exceed their requests: tables."""

from collections.abc import Sequence
from contextlib import suppress
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.trace_context import own_context
from edged.cri.contract import SERVER_ACTOR
from edged.eviction.consumption import consumption, pod_usage
from edged.eviction.decide import excess, has_limits
from edged.eviction.evictor import low_message
from edged.eviction.rank import ranked
from edged.eviction_api.signals import Observation, Signal
from edged.eviction_api.thresholds import parse_thresholds
from edged.eviction_api.usage import ContainerUsage, DiskConsumption, PodUsage
from edged.node.machine import MachineError
from edged.pods.critical import is_critical
from edged.stats.model import ContainerStats, FsStats, MemoryStats, PodReference, PodStats, ProcessStats
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.types import Pod, Quantity, ResourceRequirements
from tests.edged.pods.builders import a_container, a_pod

MIB = 1 << 20
NOW = "2026-11-20T01:54:50Z"


def named(name: str, *, priority: int | None = None, memory: str = "0", disk: str = "0") -> Pod:
    requests: dict[str, Quantity] = {"memory": memory, "ephemeral-storage": disk}
    container = a_container(resources=ResourceRequirements(requests=requests))
    return a_pod(container, meta={"name": name, "uid": name}, priority=priority)


def order(pods: Sequence[Pod], usages: Sequence[PodUsage], signal: Signal, *, apart: bool = False) -> list[str]:
    found = ranked(pods, {usage.uid: usage for usage in usages}, signal, image_fs_apart=apart)
    return [pod.metadata.name for pod in found]


def test_for_memory_first_who_is_above_its_requests_then_by_priority_then_by_how_much() -> None:
    pods = [
        named("within", memory="500Mi"),
        named("exactly at", memory="400Mi"),
        named("important", priority=1000, memory="10Mi"),
        named("little above", memory="90Mi"),
        named("far above", memory="10Mi"),
        named("unknown", priority=5000),
    ]
    sizes = {"within": 400, "exactly at": 400, "important": 900, "little above": 100, "far above": 100}
    usages = [PodUsage(uid, memory=size * MIB) for uid, size in sizes.items()]
    expected = ["unknown", "far above", "little above", "important", "exactly at", "within"]
    assert order(pods, usages, Signal.MEMORY) == expected


def test_for_disk_what_counts_is_all_that_is_on_that_file_system() -> None:
    pods = [named("layer"), named("logs")]
    layer = PodUsage(
        "layer", containers=(ContainerUsage("bb", layer=DiskConsumption(90, 1)),), storage=DiskConsumption(100, 11)
    )
    logs = PodUsage(
        "logs", containers=(ContainerUsage("bb", layer=DiskConsumption(1, 9)),), storage=DiskConsumption(80, 20)
    )
    assert order(pods, [layer, logs], Signal.NODE_FS) == ["layer", "logs"]
    assert order(pods, [layer, logs], Signal.NODE_INODES) == ["logs", "layer"]
    assert order(pods, [layer, logs], Signal.NODE_FS, apart=True) == ["logs", "layer"]
    assert order(pods, [layer, logs], Signal.IMAGE_FS, apart=True) == ["layer", "logs"]
    assert order(pods, [layer, logs], Signal.IMAGE_INODES, apart=True) == ["logs", "layer"]
    assert order(pods, [layer, logs], Signal.NODE_INODES, apart=True) == ["logs", "layer"]


def test_on_the_nodes_disk_layers_elsewhere_count_nothing() -> None:
    """All four inodes of one pod are in its layer, two of the five of the other."""
    pods = [named("layer"), named("logs")]
    usages = [
        PodUsage(name, containers=(ContainerUsage("bb", layer=DiskConsumption(each, each)),), storage=whole)
        for name, each, whole in (("layer", 4, DiskConsumption(4, 4)), ("logs", 2, DiskConsumption(3, 3)))
    ]
    assert order(pods, usages, Signal.NODE_INODES) == ["layer", "logs"]
    assert order(pods, usages, Signal.NODE_INODES, apart=True) == ["logs", "layer"]
    assert order(pods, usages, Signal.NODE_FS, apart=True) == ["logs", "layer"]


def test_a_pod_without_a_priority_goes_before_one_that_has_any() -> None:
    """Its priority is 0, and whoever uses anything without a request is above it, were it a byte, an inode."""
    pods = [named("one", priority=1), named("none"), named("nothing used")]
    usages = [
        PodUsage(name, size, storage=DiskConsumption(size, size))
        for name, size in (("one", 9), ("none", 1), ("nothing used", 0))
    ]
    for signal in (Signal.MEMORY, Signal.NODE_FS, Signal.NODE_INODES, Signal.IMAGE_INODES):
        assert order(pods, usages, signal) == ["none", "one", "nothing used"]


def test_who_requests_nothing_is_above_its_request_with_a_byte() -> None:
    pods = [named("asked", memory="2"), a_pod(a_container(), meta={"name": "none", "uid": "none"}, priority=9)]
    usages = [PodUsage("asked", memory=1), PodUsage("none", memory=1)]
    assert order(pods, usages, Signal.MEMORY) == ["none", "asked"]


def test_who_has_no_process_that_is_known_goes_after_who_has_one() -> None:
    pods, usages = [named("none"), named("one")], [PodUsage("none"), PodUsage("one", processes=1)]
    assert order(pods, usages, Signal.PIDS) == ["one", "none"]


def test_requests_of_disk_count_and_of_memory_do_not() -> None:
    pods = [named("asked", disk="1Gi"), named("not", memory="1Gi")]
    usages = [PodUsage("asked", storage=DiskConsumption(500 * MIB)), PodUsage("not", storage=DiskConsumption(1 * MIB))]
    assert order(pods, usages, Signal.NODE_FS) == ["not", "asked"]


def test_for_processes_by_priority_then_by_their_number() -> None:
    """A pod of unknown usage comes before the others of its priority."""
    pods = [named("many", priority=10), named("few"), named("some"), named("unknown")]
    usages = [PodUsage("many", processes=99), PodUsage("few", processes=1), PodUsage("some", processes=5)]
    assert order(pods, usages, Signal.PIDS) == ["unknown", "some", "few", "many"]


@given(st.permutations(["a", "b", "c", "d"]), st.sampled_from(Signal))
def test_the_order_of_the_pods_does_not_matter(names: list[str], signal: Signal) -> None:
    sizes = {"a": 5, "b": 4, "c": 3, "d": 2}
    usages = [PodUsage(n, sizes[n], sizes[n], storage=DiskConsumption(sizes[n], sizes[n])) for n in names]
    assert order([named(name) for name in names], usages, signal) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("pod", "critical"),
    [
        (a_pod(), False),
        (a_pod(priority=1_999_999_999), False),
        (a_pod(priority=2_000_000_000), True),
        (a_pod(meta={"annotations": {CONFIG_SOURCE: "file"}}), True),
        (a_pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), True),
    ],
)
def test_static_pods_and_components_of_the_system_are_critical(pod: Pod, critical: bool) -> None:
    assert is_critical(pod) is critical


def test_the_message_is_kubelets() -> None:
    (threshold,) = parse_thresholds({"memory.available": "100Mi"})
    pod = named("web", memory="10Mi")
    usage = PodUsage("web", containers=(ContainerUsage("bb", 20 * MIB), ContainerUsage("gone", 1)))
    there = {Signal.MEMORY: Observation(50 * MIB, 1 << 30)}
    assert low_message(threshold, there, pod, usage) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container bb was using 20Mi, request is 10Mi, has larger consumption of memory. "
    )
    assert low_message(threshold, there, pod, None).endswith("available: 50Mi. ")
    within = PodUsage("web", containers=(ContainerUsage("bb", 10 * MIB),))
    assert low_message(threshold, there, pod, within).endswith("available: 50Mi. "), "it used what it had asked for"
    (disk,) = parse_thresholds({"nodefs.available": "10Mi"})
    written = ContainerUsage("bb", 20 * MIB, DiskConsumption(2 * MIB), DiskConsumption(1 * MIB))
    assert low_message(
        disk,
        {Signal.NODE_FS: Observation(5 * MIB, 1 << 30)},
        named("web", disk="1Mi"),
        PodUsage("web", None, 1, (written,)),
    ).endswith("Container bb was using 3Mi, request is 1Mi, has larger consumption of ephemeral-storage. ")


def limited(limit: str | None = None) -> Pod:
    limits: dict[str, Quantity] = {"ephemeral-storage": limit} if limit is not None else {}
    return a_pod(a_container(resources=ResourceRequirements(limits=limits)))


def using(*, layer: int = 0, logs: int = 0, volume: int = 0) -> PodUsage:
    container = ContainerUsage("bb", layer=DiskConsumption(layer), logs=DiskConsumption(logs))
    return PodUsage("x", containers=(container,), storage=DiskConsumption(layer + logs + volume))


@pytest.mark.parametrize(
    ("pod", "usage", "why"),
    [
        (limited(), using(layer=10 * MIB, volume=10 * MIB), None),
        (
            limited("2Mi"),
            using(layer=MIB, volume=MIB + 1),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (limited("2Mi"), using(layer=MIB, logs=MIB), None),
        (limited("0"), using(), None),
        (limited("0"), using(layer=1), "Pod ephemeral local storage usage exceeds the total limit of containers 0. "),
        (limited("1"), using(volume=2), "Pod ephemeral local storage usage exceeds the total limit of containers 1. "),
    ],
)
def test_pods_over_their_limits_of_disk_are_found(pod: Pod, usage: PodUsage, why: str | None) -> None:
    assert excess(pod, usage, image_fs_apart=False) == why


def test_one_container_may_not_take_the_others_part() -> None:
    limits = ResourceRequirements(limits={"ephemeral-storage": "1Mi"})
    pod = a_pod(a_container("bb", resources=limits), a_container("other", resources=limits))
    usage = using(layer=MIB, logs=1)
    why = 'Container bb exceeded its local ephemeral storage limit "1Mi". '
    assert excess(pod, usage, image_fs_apart=False) == why
    assert excess(pod, usage, image_fs_apart=True) is None, "its layer is not on the node's file system"
    assert excess(pod, using(logs=MIB), image_fs_apart=True) is None
    assert excess(pod, using(logs=MIB + 1), image_fs_apart=True) == why


def test_a_start_and_a_sidecar_have_no_limit_of_disk_of_their_own() -> None:
    """The pod's limit, which theirs are part of, holds for them together with the others."""
    limits = ResourceRequirements(limits={"ephemeral-storage": "1Mi"})
    sidecar = a_container("bb", resources=limits, restart_policy="Always")
    pod = a_pod(a_container("other", resources=limits), init=(sidecar,))
    assert excess(pod, using(logs=2 * MIB), image_fs_apart=False) is None
    assert excess(pod, using(logs=2 * MIB + 1), image_fs_apart=False) is not None


def test_files_are_counted_only_for_pods_with_limits() -> None:
    assert [has_limits(pod) for pod in (limited(), limited("1Mi"))] == [False, True]


@pytest.mark.parametrize("error", [None, MachineError("read", "x")])
def test_a_measurement_is_the_servers_in_a_trace_and_later_calls_are_not(error: MachineError | None) -> None:
    """A replay makes only the others."""
    before, during = own_context().actor, list[str]()

    def summary(*_: object, **__: object) -> Mock:
        during.append(own_context().actor)
        if error is not None:
            raise error
        return Mock(pods=())

    with suppress(MachineError):
        consumption(Mock(summary=summary))(Mock(), False)  # noqa: FBT003 - as the evictor does
    assert (during, own_context().actor) == ([SERVER_ACTOR], before)


def test_a_pods_usage_is_taken_from_its_statistics() -> None:
    fs = FsStats(time=NOW, used_bytes=5, inodes_used=1)  # type: ignore[arg-type]
    memory = MemoryStats(time=NOW, working_set_bytes=7)  # type: ignore[arg-type]
    stats = PodStats(
        PodReference("web", "default", "u"),
        containers=(ContainerStats("bb", memory=memory, rootfs=fs), ContainerStats("blind")),
        memory=memory,
        ephemeral_storage=fs,
        process_stats=ProcessStats(4),
    )
    usage = pod_usage(stats)
    assert (usage.uid, usage.memory, usage.processes, usage.storage) == ("u", 7, 4, DiskConsumption(5, 1))
    assert usage.containers == (ContainerUsage("bb", 7, DiskConsumption(5, 1)), ContainerUsage("blind"))
    assert usage.layers == DiskConsumption(5, 1)


def test_statistics_without_figures_are_no_usage() -> None:
    stats = PodStats(PodReference("web", "default", "u"), ephemeral_storage=FsStats(time=NOW))  # type: ignore[arg-type]
    assert pod_usage(stats).storage == DiskConsumption(0, 0)


def test_a_container_without_a_part_of_its_own_may_take_the_others() -> None:
    """kubelet's rule: its limit of zero is none."""
    nothing, much = (ResourceRequirements(limits={"ephemeral-storage": each}) for each in ("0", "1Mi"))
    pod = a_pod(a_container("bb", resources=nothing), a_container("other", resources=much))
    assert excess(pod, using(layer=1), image_fs_apart=False) is None
