"""Pods and facts for tests, with only what the test is about."""

from typing import Any

from edged.pods.facts import pod_facts
from edged.pods.hash import container_hash
from edged.pods.model import ContainerFacts, ContainerId, PodFacts, PodRef, PodUid, RunState, SandboxFacts, SandboxId
from modules.apimachinery.types import Container, Nanoseconds, ObjectMeta, Pod, PodSpec, PodStatus, seconds

UID = PodUid("cd5ab9a8-09a2-42ce-8217-e1bd8c6cb445")
REF = PodRef(UID, "default", "bb1")
T0 = seconds(1_795_139_690)
"""2026-11-20T01:54:50Z."""


def at(after: float) -> Nanoseconds:
    """The point in time so many seconds after T0."""
    return Nanoseconds(T0 + seconds(after))


def a_container(name: str = "bb", **fields: Any) -> Container:
    """A container of busybox."""
    return Container(**{"name": name, "image": "busybox:1.35", **fields})


def a_pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    restart: str = "Always",
    meta: dict[str, Any] | None = None,
    status: PodStatus | None = None,
    **spec: Any,
) -> Pod:
    """A pod of the containers given (one named bb without any)."""
    return Pod(
        metadata=ObjectMeta(**{"name": "bb1", "namespace": "default", "uid": UID, **(meta or {})}),
        spec=PodSpec(containers=containers or (a_container(),), init_containers=init, restart_policy=restart, **spec),
        status=status or PodStatus(phase="Pending"),
    )


def a_sandbox(attempt: int = 0, *, ready: bool = True, **fields: Any) -> SandboxFacts:
    """A sandbox `s<attempt>` with an address."""
    made = {"created_at": at(attempt), "ips": ("10.89.0.2",), **fields}
    return SandboxFacts(id=SandboxId(f"s{attempt}"), attempt=attempt, ready=ready, **made)


def running(container: Container, attempt: int = 0, **fields: Any) -> ContainerFacts:
    """The container as started again, `attempt` times."""
    made: dict[str, Any] = {
        "id": ContainerId(f"{container.name}-{attempt}"),
        "sandbox_id": SandboxId("s0"),
        "name": container.name,
        "attempt": attempt,
        "state": RunState.RUNNING,
        "created_at": at(1 + attempt),
        "started_at": at(1 + attempt),
        "hash": container_hash(container),
        "image": f"docker.io/library/{container.image}",
        "image_ref": "sha256:a1c9",
    }
    return ContainerFacts(**(made | fields))


def exited(container: Container, code: int = 0, attempt: int = 0, **fields: Any) -> ContainerFacts:
    """The container after its end, one second after its start."""
    made = {
        "state": RunState.EXITED,
        "exit_code": code,
        "finished_at": at(2 + attempt),
        "reason": "Error" if code else "Completed",
    }
    return running(container, attempt, **(made | fields))


def facts(*containers: ContainerFacts, sandboxes: tuple[SandboxFacts, ...] | None = None) -> PodFacts:
    """What the runtime says: one good sandbox s0 unless told otherwise."""
    return pod_facts(REF, (a_sandbox(),) if sandboxes is None else sandboxes, containers)
