"""What runs is found again by what was recorded with it, and files are where a kubelet has them."""

from pathlib import Path

import pytest

from edged.errors import ConfigError
from edged.pod_workers.pruner import prunable
from edged.pods.config.container_config import ContainerContext, container_config
from edged.pods.config.resources import HostResources
from edged.pods.facts import listed_pod, pod_facts, read_container, read_pod, read_sandbox
from edged.pods.hash import container_hash
from edged.pods.labels import CONTAINER_NAME, POD_UID, RESTART_COUNT, identity_labels, ref_from_labels, ref_of
from edged.pods.model import ContainerFacts, ContainerId, RunState, SandboxFacts, SandboxId
from edged.pods.paths import PodPaths, log_path
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import REF, UID, a_container, a_pod, at

PATHS = PodPaths(Path("/var/lib/kubelet"))


def test_facts_agree_with_the_configuration() -> None:
    """A container made from a configuration is recognised: pod, name, number, hash, where its termination message
    stand.
    """
    container = a_container(termination_message_path="/dev/termination-log")
    pod = a_pod(container)
    mount = cri.Mount(container_path="/dev/termination-log", host_path="/x/2")
    config = container_config(pod, container, ContainerContext("sha256:a1", 2, {}, [mount], HostResources(2**30)))
    status = cri.ContainerStatus(
        id="c1",
        metadata=config.metadata,
        state=cri.CONTAINER_RUNNING,
        created_at=at(0),
        started_at=at(1),
        image=cri.ImageSpec(image="docker.io/library/busybox:1.35"),
        image_ref="sha256:a1",
        labels=config.labels,
        annotations=config.annotations,
        mounts=[mount],
    )
    facts = read_container(SandboxId("s0"), status)
    assert (facts.name, facts.attempt, facts.hash) == ("bb", 2, container_hash(container))
    assert (facts.state, facts.started_at, facts.message_path) == (RunState.RUNNING, at(1), "/x/2")
    assert ref_from_labels(config.labels) == ref_of(pod) == REF


def test_sandbox_facts() -> None:
    """State, number, network mode and addresses are read; a reported empty address is not the same as no
    report.
    """
    status = cri.PodSandboxStatus(id="s", state=cri.SANDBOX_READY, metadata=cri.PodSandboxMetadata(attempt=3))
    assert (read_sandbox(status).ips, read_sandbox(status).attempt, read_sandbox(status).ready) == (None, 3, True)
    status.network.ip = "10.0.0.1"
    status.network.additional_ips.append(cri.PodIP(ip="fd00::1"))
    status.linux.namespaces.options.network = cri.NODE
    assert read_sandbox(status).ips == ("10.0.0.1", "fd00::1")
    assert read_sandbox(status).host_network
    empty = cri.PodSandboxStatus(id="s", state=cri.SANDBOX_NOTREADY, network=cri.PodSandboxNetworkStatus())
    assert (read_sandbox(empty).ips, read_sandbox(empty).ready) == ((), False)


@pytest.mark.parametrize("noted", [None, "", "x", "-1", "9" * 10])
def test_a_container_without_a_number_of_restarts_has_the_attempt_of_the_runtime(noted: str | None) -> None:
    notes = {} if noted is None else {RESTART_COUNT: noted}
    metadata = cri.ContainerMetadata(name="a", attempt=4)
    assert read_container(SandboxId("s"), cri.ContainerStatus(metadata=metadata, annotations=notes)).attempt == 4


def test_lists_have_identities_and_states_of_one_pod_alone() -> None:
    """A runtime that ignores the filter, or lists what is nobody's, has nothing of it stopped or removed."""
    others: tuple[dict[str, str], ...] = ({}, {**identity_labels(a_pod()), POD_UID: "other"}, {POD_UID: UID})
    mine = {**identity_labels(a_pod()), CONTAINER_NAME: "bb"}
    each = [mine, *others]
    sandboxes = [
        cri.PodSandbox(id="s", metadata=cri.PodSandboxMetadata(attempt=3), created_at=at(0), labels=labels)
        for labels in each
    ]
    containers = [
        cri.Container(
            id="c", pod_sandbox_id="s", state=cri.CONTAINER_EXITED, created_at=at(1), labels=labels,
            annotations={RESTART_COUNT: "2"},
        )
        for labels in each
    ]  # fmt: skip
    expected = pod_facts(
        REF,
        [SandboxFacts(SandboxId("s"), 3, created_at=at(0), ready=True)],
        [ContainerFacts(ContainerId("c"), SandboxId("s"), "bb", 2, RunState.EXITED, at(1))],
    )
    assert listed_pod(REF, sandboxes, containers) == expected


def test_facts_are_sorted_newest_first() -> None:
    """The runtime's order does not matter."""
    sandboxes = [cri.PodSandboxStatus(id=f"s{n}", created_at=n) for n in (1, 3, 2)]
    containers = [
        (SandboxId("s3"), cri.ContainerStatus(id=f"c{n}", created_at=n, metadata=cri.ContainerMetadata(name="a")))
        for n in (1, 3, 2)
    ]
    facts = read_pod(REF, sandboxes, containers)
    assert [s.id for s in facts.sandboxes] == ["s3", "s2", "s1"]
    assert [c.id for c in facts.containers] == ["c3", "c2", "c1"]


@pytest.mark.parametrize("tick", [0, -1], ids=["one tick", "clock set back"])
def test_the_attempts_tell_what_is_newest_whatever_the_clock_says(tick: int) -> None:
    """As numbers: attempt 10 is newer than attempt 9."""
    attempts = (9, 11, 8, 10)
    sandboxes = [
        cri.PodSandboxStatus(id=f"s{n}", created_at=100 + n * tick, metadata=cri.PodSandboxMetadata(attempt=n))
        for n in attempts
    ]
    containers = [
        (SandboxId("s"), cri.ContainerStatus(id=f"c{n}", created_at=100 + n * tick, metadata=cri.ContainerMetadata(
            name="a", attempt=n)))
        for n in attempts
    ]  # fmt: skip
    facts = read_pod(REF, sandboxes, containers)
    assert [s.id for s in facts.sandboxes] == ["s11", "s10", "s9", "s8"]
    assert [c.id for c in facts.containers] == ["c11", "c10", "c9", "c8"]
    assert [c.id for c in prunable(facts).containers] == ["c10", "c9", "c8"]


def test_foreign_containers_are_nobodys() -> None:
    """Without the three labels a container is not ours."""
    assert ref_from_labels({"io.kubernetes.pod.name": "x"}) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_names_from_the_cloud_cannot_leave_their_directory(name: str) -> None:
    """A pod, volume or container whose name is a path is refused."""
    for path in (lambda: PATHS.volume(UID, "secret", name), lambda: log_path(name, 0)):
        with pytest.raises(ConfigError, match="cannot make a directory"):
            path()


def test_paths_are_kubelets() -> None:
    """People find a pod's files where a kubelet would put them."""
    assert (
        str(PATHS.volume(UID, "configmap", "cm")) == f"/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~configmap/cm"
    )
    assert str(PATHS.termination_message(UID, "bb", 3)) == f"/var/lib/kubelet/pods/{UID}/containers/bb/3"
    assert str(PATHS.etc_hosts(UID)) == f"/var/lib/kubelet/pods/{UID}/etc-hosts"


def test_paths_of_sub_paths_are_kubelets() -> None:
    paths = PodPaths(Path("/root"), Path("/logs"))
    assert paths.sub_path(UID, "data", "main", 2) == paths.pod(UID) / "volume-subpaths/data/main/2"
