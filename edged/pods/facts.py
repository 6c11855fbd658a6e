"""Conversion of the CRI's answers to facts.

A container without a pod's labels is not ours and is never touched. The CRI's container status lacks the sandbox's id,
so it comes paired with it (from the list, or from the sandbox's own status).
"""

from collections.abc import Iterable

from edged.pods import labels
from edged.pods.model import ContainerFacts, ContainerId, PodFacts, PodRef, RunState, SandboxFacts, SandboxId
from modules.apimachinery.types import Nanoseconds
from protos.cri.v1 import api_pb2 as cri

_STATES = {
    cri.CONTAINER_CREATED: RunState.CREATED,
    cri.CONTAINER_RUNNING: RunState.RUNNING,
    cri.CONTAINER_EXITED: RunState.EXITED,
}


def pod_facts(
    ref: PodRef, sandboxes: Iterable[SandboxFacts] = (), containers: Iterable[ContainerFacts] = ()
) -> PodFacts:
    """Return the facts of one pod in the order that decisions rely on: newest first.

    Attempts count up, for sandboxes and for containers of one name. Creation times come from a wall clock, which on a
    board without a battery goes back at every boot. (A kubelet sorts by time, and takes the older container for the
    newer one.)
    """
    return PodFacts(
        ref,
        tuple(sorted(sandboxes, key=lambda s: (s.attempt, s.created_at), reverse=True)),
        tuple(sorted(containers, key=lambda c: (c.attempt, c.created_at), reverse=True)),
    )


def read_pod(
    ref: PodRef,
    sandboxes: Iterable[cri.PodSandboxStatus],
    containers: Iterable[tuple[SandboxId, cri.ContainerStatus]],
) -> PodFacts:
    """Return the facts of one pod from full CRI statuses."""
    return pod_facts(
        ref,
        (read_sandbox(status) for status in sandboxes),
        (read_container(sandbox, status) for sandbox, status in containers),
    )


def listed_pod(ref: PodRef, sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> PodFacts:
    """Return the facts of one pod from CRI's lists: identities and states, without addresses, ends and messages. What
    is not the pod's by its labels is left out, because a runtime may list more than it was asked for.
    """
    return pod_facts(
        ref,
        (
            SandboxFacts(
                SandboxId(each.id), each.metadata.attempt, each.state == cri.SANDBOX_READY, Nanoseconds(each.created_at)
            )
            for each in sandboxes
            if _is_of(ref, each)
        ),
        (
            ContainerFacts(
                ContainerId(each.id),
                SandboxId(each.pod_sandbox_id),
                _name(each),
                _attempt(each),
                _state(each),
                Nanoseconds(each.created_at),
            )
            for each in containers
            if _is_of(ref, each)
        ),
    )


def read_sandbox(status: cri.PodSandboxStatus) -> SandboxFacts:
    """Return the facts of one sandbox. An address that the runtime reports as empty becomes an empty tuple."""
    ips = None
    if status.HasField("network"):
        reported = (status.network.ip, *(extra.ip for extra in status.network.additional_ips))
        ips = tuple(ip for ip in reported if ip)
    return SandboxFacts(
        id=SandboxId(status.id),
        attempt=status.metadata.attempt,
        ready=status.state == cri.SANDBOX_READY,
        created_at=Nanoseconds(status.created_at),
        host_network=status.linux.namespaces.options.network == cri.NODE,
        ips=ips,
    )


def read_container(sandbox: SandboxId, status: cri.ContainerStatus) -> ContainerFacts:
    """Return the facts of one container in the given sandbox."""
    notes = status.annotations
    message_path = notes.get(labels.MESSAGE_PATH, "")
    mounts = (m.host_path for m in status.mounts if message_path and m.container_path == message_path)
    return ContainerFacts(
        id=ContainerId(status.id),
        sandbox_id=sandbox,
        name=_name(status),
        attempt=_attempt(status),
        state=_state(status),
        created_at=Nanoseconds(status.created_at),
        started_at=Nanoseconds(status.started_at),
        finished_at=Nanoseconds(status.finished_at),
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        hash=notes.get(labels.DEFINITION_HASH) or notes.get(labels.HASH, ""),
        image=status.image.image,
        image_ref=status.image_ref,
        message_path=next(mounts, ""),
        message_policy=notes.get(labels.MESSAGE_POLICY, ""),
        log_path=status.log_path,
    )


def _is_of(ref: PodRef, listed: cri.PodSandbox | cri.Container) -> bool:
    found = labels.ref_from_labels(listed.labels)
    return found is not None and found.uid == ref.uid


def _name(container: cri.Container | cri.ContainerStatus) -> str:
    return container.labels.get(labels.CONTAINER_NAME, container.metadata.name)


def _state(container: cri.Container | cri.ContainerStatus) -> RunState:
    return _STATES.get(container.state, RunState.UNKNOWN)


def _attempt(status: cri.Container | cri.ContainerStatus) -> int:
    noted = status.annotations.get(labels.RESTART_COUNT, "")
    return int(noted) if noted.isascii() and noted.isdecimal() and len(noted) < 10 else status.metadata.attempt
