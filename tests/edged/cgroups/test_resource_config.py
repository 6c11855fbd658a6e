"""The limits of cgroups, compared with kubelet's."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.cgroups.knobs import Knob, knobs, weight_of
from edged.cgroups.resource_config import (
    UNLIMITED,
    NodeCapacity,
    ResourceConfig,
    allocatable,
    milli_cpu_of_class,
    resource_config_for_class,
    resource_config_for_pod,
    resource_config_for_pods,
    resource_config_for_reserved,
)
from edged.pods.config.resources import HostResources
from edged.settings.cgroups import CgroupSettings, Reservation
from modules.apimachinery.pods.demand import pod_limits, pod_requests
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types import Container, Pod, Quantity, ResourceRequirements
from tests.edged.pods.builders import a_container, a_pod

MACHINE = HostResources(memory=2**30)
MIB = 2**20
FULL: dict[str, Quantity] = {"cpu": "500m", "memory": "64Mi"}


def needing(name: str = "a", requests: Any = None, limits: Any = None, **fields: Any) -> Container:
    resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    return a_container(name, resources=resources, **fields)


def sidecar(name: str, **amounts: Any) -> Container:
    return needing(name, restart_policy="Always", **amounts)


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (a_pod(needing(requests={"cpu": "1"}), needing("b", requests={"cpu": "2"})), 3),
        (a_pod(needing(limits={"cpu": "1"})), 1),
        (a_pod(needing(requests={"cpu": "1"}), init=(needing("i", requests={"cpu": "5"}),)), 5),
        (a_pod(needing(requests={"cpu": "3"}), init=(needing("i", requests={"cpu": "2"}),)), 3),
        (a_pod(needing(requests={"cpu": "1"}), init=(sidecar("s", requests={"cpu": "2"}),)), 3),
        (
            a_pod(
                needing(requests={"cpu": "1"}),
                init=(sidecar("s", requests={"cpu": "2"}), needing("i", requests={"cpu": "4"})),
            ),
            6,
        ),
        (
            a_pod(
                needing(requests={"cpu": "1"}),
                init=(needing("i", requests={"cpu": "4"}), sidecar("s", requests={"cpu": "2"})),
            ),
            4,
        ),
        (a_pod(needing(requests={"cpu": "1"}), overhead={"cpu": "250m"}), 1.25),
        (a_pod(needing(requests={"cpu": "1"}), resources=ResourceRequirements(requests={"cpu": "7"})), 7),
        (a_pod(needing(requests={"cpu": "1"}), resources=ResourceRequirements(limits={"cpu": "7"})), 1),
        (a_pod(needing(), resources=ResourceRequirements(limits={"cpu": "7"})), 7),
    ],
)
def test_the_requests_of_a_pod(pod: Pod, cpu: float) -> None:
    """The sum of containers and sidecars, or the largest init container if it requests more; plus the overhead."""
    assert pod_requests(pod)["cpu"] == cpu


def test_overhead_is_added_to_limits_only_where_there_is_one() -> None:
    pod = a_pod(needing(limits={"cpu": "1"}), overhead={"cpu": "1", "memory": "1Mi"})
    assert pod_limits(pod) == {"cpu": 2}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(needing()), ResourceConfig(2, UNLIMITED, 100_000, UNLIMITED, UNLIMITED, {})),
        (a_pod(needing(limits=FULL)), ResourceConfig(512, 50_000, 100_000, 64 * MIB, UNLIMITED, {})),
        (
            a_pod(needing(limits=FULL), needing("b", limits=FULL)),
            ResourceConfig(1024, 100_000, 100_000, 128 * MIB, -1, {}),
        ),
        (a_pod(needing(limits=FULL), needing("b")), ResourceConfig(512, UNLIMITED, 100_000, UNLIMITED, UNLIMITED, {})),
        (a_pod(needing(requests=FULL)), ResourceConfig(512, UNLIMITED, 100_000, UNLIMITED, UNLIMITED, {})),
        (
            a_pod(needing(requests={"cpu": "1m"}, limits={"cpu": "1m", "hugepages-2Mi": "4Mi"})),
            ResourceConfig(2, 1000, 100_000, UNLIMITED, UNLIMITED, {"2MB": 4 * MIB}),
        ),
        (
            a_pod(needing(limits={"memory": "8Mi"}), init=(needing("i", limits={"memory": "16Mi"}),)),
            ResourceConfig(2, UNLIMITED, 100_000, 16 * MIB, UNLIMITED, {}),
        ),
        (
            a_pod(needing(), resources=ResourceRequirements(limits=FULL)),
            ResourceConfig(512, 50_000, 100_000, 64 * MIB, UNLIMITED, {}),
        ),
    ],
)
def test_limits_of_a_pod(pod: Pod, expected: ResourceConfig) -> None:
    """A limit of the pod only when every container has one; the weight of the requests."""
    assert resource_config_for_pod(pod, MACHINE) == expected


def test_limits_that_are_switched_on_or_off_for_the_node() -> None:
    """podPidsLimit, cpuCFSQuota and cpuCFSQuotaPeriod."""
    pod = a_pod(needing(limits=FULL))
    assert resource_config_for_pod(pod, MACHINE, pids=100).pids == 100
    assert resource_config_for_pod(pod, MACHINE, pids=0).pids == UNLIMITED
    assert resource_config_for_pod(pod, HostResources(memory=1, cfs_quota=False)).cpu_quota == UNLIMITED
    shorter = resource_config_for_pod(pod, HostResources(memory=1, cfs_period=10_000))
    assert (shorter.cpu_quota, shorter.cpu_period) == (5_000, 10_000)


def test_parts_of_a_unit_are_rounded_up() -> None:
    """The millionth part of a processor is no limit of nothing."""
    small = {"cpu": "1000500u", "memory": "1000500m"}
    found = resource_config_for_pod(a_pod(needing(limits=small, requests=small)), MACHINE)
    assert (found.cpu_shares, found.cpu_quota, found.memory) == (1001 * 1024 // 1000, 100_100, 1001)


def test_limits_of_classes() -> None:
    """Burstable has the weight of its pods' requests, best effort the smallest; Guaranteed is no cgroup of its own."""
    assert resource_config_for_class(QosClass.BEST_EFFORT, 0) == ResourceConfig(cpu_shares=2)
    assert resource_config_for_class(QosClass.BURSTABLE, 1500) == ResourceConfig(cpu_shares=1536)
    pod = a_pod(needing(requests={"cpu": "1500m"}))
    assert milli_cpu_of_class(pod, qos_class(pod)) == 1500
    assert milli_cpu_of_class(a_pod(needing(limits=FULL)), QosClass.GUARANTEED) == 0


@pytest.mark.parametrize(("enforce", "memory", "shares"), [(("pods",), 700 * MIB, 1536), (("none",), 1024 * MIB, 2048)])
def test_limits_of_all_pods(enforce: tuple[str, ...], memory: int, shares: int) -> None:
    """The node without its reservations when `pods` is enforced, the whole node else."""
    settings = CgroupSettings(
        enforce=enforce,
        kube_reserved=Reservation({"cpu": "500m", "memory": "300Mi"}),
        system_reserved=Reservation({"memory": "24Mi", "pid": "100"}),
    )
    assert resource_config_for_pods(NodeCapacity(2, 1024 * MIB), settings) == ResourceConfig(
        cpu_shares=shares, memory=memory
    )


def test_limits_of_reserved_groups() -> None:
    reserved = Reservation({"cpu": "1", "memory": "100Mi", "pid": "50"})
    assert resource_config_for_reserved(reserved) == ResourceConfig(cpu_shares=1024, memory=100 * MIB, pids=50)
    assert resource_config_for_reserved(Reservation({})) == ResourceConfig()


ALL = ResourceConfig(512, 50_000, 100_000, 64 * MIB, 100, {"2MB": 4 * MIB})
NONE = ResourceConfig(2, UNLIMITED, 100_000, UNLIMITED, UNLIMITED, {})


@pytest.mark.parametrize(
    ("limits", "unified", "expected"),
    [
        (
            ALL, False,
            [
                ("cpu", "cpu.shares", "512"), ("cpu", "cpu.cfs_period_us", "100000"),
                ("cpu", "cpu.cfs_quota_us", "50000"), ("memory", "memory.limit_in_bytes", "67108864"),
                ("pids", "pids.max", "100"), ("hugetlb", "hugetlb.1GB.limit_in_bytes", "0"),
                ("hugetlb", "hugetlb.2MB.limit_in_bytes", "4194304"),
            ],
        ),
        (
            ALL, True,
            [
                ("cpu", "cpu.weight", "20"), ("cpu", "cpu.max", "50000 100000"), ("memory", "memory.max", "67108864"),
                ("pids", "pids.max", "100"), ("hugetlb", "hugetlb.1GB.max", "0"),
                ("hugetlb", "hugetlb.2MB.max", "4194304"),
            ],
        ),
        (
            NONE, False,
            [
                ("cpu", "cpu.shares", "2"), ("cpu", "cpu.cfs_period_us", "100000"), ("cpu", "cpu.cfs_quota_us", "-1"),
                ("memory", "memory.limit_in_bytes", "-1"), ("pids", "pids.max", "max"),
                ("hugetlb", "hugetlb.1GB.limit_in_bytes", "0"),
            ],
        ),
        (
            NONE, True,
            [
                ("cpu", "cpu.weight", "1"), ("cpu", "cpu.max", "max 100000"), ("memory", "memory.max", "max"),
                ("pids", "pids.max", "max"), ("hugetlb", "hugetlb.1GB.max", "0"),
            ],
        ),
        (ResourceConfig(), True, []),
        (ResourceConfig(cpu_quota=50_000), True, [("cpu", "cpu.max", "50000")]),
    ],
)  # fmt: skip
def test_the_files_that_are_written(
    limits: ResourceConfig, unified: bool, expected: list[tuple[str, str, str]]
) -> None:
    """Both hierarchies' names; a size of huge pages without a limit gets 0."""
    assert knobs(limits, unified=unified, page_sizes=("1GB",)) == [Knob(*each) for each in expected]


@given(st.integers(2, 262144), st.integers(2, 262144))
def test_the_order_of_weights_is_kept(one: int, other: int) -> None:
    """Between the two scales, and within the kernel's bounds."""
    assert 1 <= weight_of(one) <= 10_000
    assert (weight_of(one) <= weight_of(other)) or one > other


def test_a_reservation_larger_than_the_node_leaves_nothing_to_pods() -> None:
    """And no negative limit, which the kernel takes for none."""
    settings = CgroupSettings(kube_reserved=Reservation({"memory": "2Gi"}))
    assert allocatable({"memory": Fraction(2**30)}, settings) == {"memory": 0}
