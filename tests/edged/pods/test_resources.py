"""Requests and limits reach the kernel as a kubelet would set them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edged.pods.config.resources import HostResources, cpu_shares, linux_resources, oom_score_adjust
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types import Container, Pod, Quantity, ResourceRequirements
from tests.edged.pods.builders import a_container, a_pod

MACHINE = HostResources(memory=1000 * 2**20)
NODE_CRITICAL = "system-node-critical"
STATIC = {"annotations": {"kubernetes.io/config.source": "file"}}


def needing(name: str = "a", requests: Any = None, limits: Any = None) -> Container:
    return a_container(name, resources=ResourceRequirements(requests=requests or {}, limits=limits or {}))


FULL: dict[str, Quantity] = {"cpu": "1", "memory": "100Mi"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(needing()), "BestEffort"),
        (a_pod(needing(requests={"cpu": "0"})), "BestEffort"),
        (a_pod(needing(limits={"ephemeral-storage": "1Gi"})), "BestEffort"),
        (a_pod(needing(requests=FULL, limits=FULL)), "Guaranteed"),
        (a_pod(needing(limits=FULL)), "Guaranteed"),
        (a_pod(needing(requests={"cpu": "1000m"}, limits=FULL)), "Guaranteed"),
        (a_pod(needing(requests={"cpu": "500m"}, limits=FULL)), "Burstable"),
        (a_pod(needing(requests={"cpu": "0"}, limits=FULL)), "Burstable"),
        (a_pod(needing(limits={"cpu": "1"})), "Burstable"),
        (a_pod(needing(requests=FULL)), "Burstable"),
        (a_pod(needing(limits=FULL), needing("b")), "Burstable"),
        (a_pod(needing(limits=FULL), init=(needing("i"),)), "Burstable"),
        (a_pod(needing(limits=FULL), init=(needing("i", limits=FULL),)), "Guaranteed"),
    ],
)
def test_quality_of_service(pod: Pod, expected: str) -> None:
    """The class follows from the requests and limits of all containers."""
    assert qos_class(pod) == QosClass(expected)


@pytest.mark.parametrize(
    ("milli", "shares"), [(0, 2), (1, 2), (2, 2), (10, 10), (250, 256), (1000, 1024), (10**9, 262144)]
)
def test_cpu_shares(milli: int, shares: int) -> None:
    """1024 shares for one CPU, between the kernel's bounds."""
    assert cpu_shares(milli) == shares


def test_requests_and_limits() -> None:
    """A request is a weight, a CPU limit a quota of 100 ms, a memory limit bytes; huge pages come along."""
    limits = {"cpu": "500m", "memory": "64Mi", "hugepages-2Mi": "4Mi"}
    container = needing(requests={"cpu": "250m"}, limits=limits)
    resources = linux_resources(a_pod(container), container, MACHINE)
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (256, 50_000, 100_000)
    assert resources.memory_limit_in_bytes == 64 * 2**20
    assert [(h.page_size, h.limit) for h in resources.hugepage_limits] == [("2MB", 4 * 2**20)]


def test_limit_stands_in_for_a_missing_request() -> None:
    """Without a request the weight is the limit's; without both it is the smallest; no limit, no quota."""
    limited, free = needing(limits={"cpu": "2"}), needing()
    assert linux_resources(a_pod(limited), limited, MACHINE).cpu_shares == 2048
    resources = linux_resources(a_pod(free), free, MACHINE)
    assert (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes) == (2, 0, 0)


def test_smallest_quota_is_one_millisecond() -> None:
    """The kernel refuses less."""
    container = needing(limits={"cpu": "1m"})
    assert linux_resources(a_pod(container), container, MACHINE).cpu_quota == 1000


def test_largest_quota_is_the_limit_of_the_runtimes_interface() -> None:
    """A limit of more processors than there are on earth was an error at every sync."""
    container = needing(limits={"cpu": "100Ei"})
    assert linux_resources(a_pod(container), container, MACHINE).cpu_quota == 2**63 - 1


def test_quota_can_be_switched_off() -> None:
    """A node that does not enforce CPU limits sets none."""
    container = needing(limits={"cpu": "1"})
    machine = HostResources(memory=1, cfs_quota=False)
    resources = linux_resources(a_pod(container), container, machine)
    assert (resources.cpu_quota, resources.cpu_period) == (0, 0)


@pytest.mark.parametrize(
    ("pod", "adjust"),
    [
        (a_pod(needing()), 1000),
        (a_pod(needing(limits=FULL)), -997),
        (a_pod(needing(requests={"memory": "100Mi"})), 900),
        (a_pod(needing(requests={"cpu": "1"})), 999),
        (a_pod(needing(requests={"memory": "2000Mi"})), 3),
        (a_pod(needing(), priority=2_000_001_000, priority_class_name=NODE_CRITICAL), -997),
        (a_pod(needing(), priority=2_000_000_000, priority_class_name=NODE_CRITICAL), -997),
        (a_pod(needing(), priority=1_999_999_999, priority_class_name=NODE_CRITICAL), 1000),
        (a_pod(needing(), priority_class_name=NODE_CRITICAL), 1000),
        (a_pod(needing(), priority=2_000_000_000, priority_class_name="system-cluster-critical"), 1000),
        (a_pod(needing(), meta=STATIC), 1000),
        (a_pod(needing(), meta=STATIC, priority_class_name=NODE_CRITICAL), -997),
    ],
)
def test_who_is_killed_first(pod: Pod, adjust: int) -> None:
    """The class, and within Burstable the share of memory, decide; a pod that is critical for its node is the last."""
    assert oom_score_adjust(pod, pod.spec.containers[0], MACHINE) == adjust


@given(st.integers(min_value=-1000, max_value=1000), st.sampled_from([{}, FULL, {"memory": "1Mi"}]))
def test_never_below_the_limit_of_the_process(smallest: int, requests: dict[str, str]) -> None:
    """Without CAP_SYS_RESOURCE the kernel refuses less than the own value, and the container with it."""
    container = needing(requests=requests, limits=requests)
    machine = HostResources(memory=2**30, smallest_oom_adjust=smallest)
    assert oom_score_adjust(a_pod(container), container, machine) >= smallest


@pytest.mark.parametrize(
    ("own", "others", "adjust"), [("10Mi", ("100Mi",), 900), ("200Mi", ("100Mi",), 800), ("0", ("300Mi", "100Mi"), 900)]
)
def test_a_sidecar_is_as_safe_as_what_needs_it(own: str, others: tuple[str, ...], adjust: int) -> None:
    """It asks for less than every regular container: then the least of theirs counts (newer kubelets)."""
    sidecar = needing("s", requests={"memory": own})
    sidecar = replace(sidecar, restart_policy="Always")
    regular = [needing(f"r{number}", requests={"memory": asked}) for number, asked in enumerate(others)]
    assert oom_score_adjust(a_pod(*regular, init=(sidecar,)), sidecar, MACHINE) == adjust


def test_a_request_of_the_whole_pod_is_shared_out() -> None:
    """Two containers of a pod that asks for 200 MiB more than they do."""
    first, second = needing("a", requests={"memory": "100Mi"}), needing("b")
    pod = a_pod(first, second, resources=ResourceRequirements(requests={"memory": "300Mi"}))
    assert [oom_score_adjust(pod, each, MACHINE) for each in (first, second)] == [800, 900]


def test_an_init_container_and_a_sidecar_have_their_own_requests() -> None:
    """Only a sidecar is as safe as the regular containers; all share what the pod requests beyond them."""
    regular, init = needing("a", requests={"memory": "100Mi"}), needing("i")
    sidecar = replace(needing("s"), restart_policy="Always")
    pod = a_pod(regular, init=(init, sidecar))
    assert [oom_score_adjust(pod, each, MACHINE) for each in (init, sidecar)] == [999, 900]
    whole = a_pod(regular, init=(init, sidecar), resources=ResourceRequirements(requests={"memory": "300Mi"}))
    assert [oom_score_adjust(whole, each, MACHINE) for each in (regular, init, sidecar)] == [834, 934, 834]
    large = needing("i", requests={"memory": "300Mi"})
    first = a_pod(regular, init=(large, sidecar), resources=ResourceRequirements(requests={"memory": "300Mi"}))
    assert [oom_score_adjust(first, each, MACHINE) for each in (regular, large)] == [900, 700]


def test_a_single_container_has_the_request_of_the_whole_pod() -> None:
    pod = a_pod(needing(), resources=ResourceRequirements(requests={"memory": "200Mi"}))
    assert oom_score_adjust(pod, pod.spec.containers[0], MACHINE) == 800


def test_the_score_is_of_thousandths_of_the_memory() -> None:
    """One byte less than a thousandth does not count."""
    for asked, adjust in ((500_000_000, 500), (499_999_999, 501), (999_999, 999)):
        pod = a_pod(needing(requests={"memory": str(asked)}))
        assert oom_score_adjust(pod, pod.spec.containers[0], HostResources(memory=10**9)) == adjust


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        (FULL, {"cpu": "1"}, "Guaranteed"),
        (FULL, {"cpu": "500m"}, "Burstable"),
        ({"cpu": "3", "memory": "256Mi"}, {"cpu": "1", "memory": "128Mi"}, "Burstable"),
        ({"cpu": "1"}, {}, "Burstable"),
    ],
)
def test_limits_of_the_whole_pod_decide_about_the_class(
    limits: dict[str, Quantity], requests: dict[str, Quantity], expected: str
) -> None:
    """A container's limits do not; what containers request is what the pod requests."""
    pod = a_pod(needing(requests=requests), resources=ResourceRequirements(limits=limits))
    assert qos_class(pod) == expected


@pytest.mark.parametrize(
    ("own", "cpu", "memory"),
    [({}, 300_000, 256), ({"cpu": "500m"}, 50_000, 256), ({"cpu": "0", "memory": "64Mi"}, 300_000, 64)],
)
def test_a_container_without_a_limit_has_that_of_the_whole_pod(own: dict[str, str], cpu: int, memory: int) -> None:
    pod = a_pod(needing(limits=own), resources=ResourceRequirements(limits={"cpu": "3", "memory": "256Mi"}))
    found = linux_resources(pod, pod.spec.containers[0], MACHINE)
    assert (found.cpu_quota, found.memory_limit_in_bytes) == (cpu, memory * 2**20)


def test_limits_of_the_whole_pod_save_no_container_beyond_its_request() -> None:
    """It requests an eighth of the memory, and the pod may have a quarter."""
    pod = a_pod(needing(requests={"memory": "125Mi"}), resources=ResourceRequirements(limits={"memory": "250Mi"}))
    assert oom_score_adjust(pod, pod.spec.containers[0], MACHINE) == 875
