"""Looks at the container runtime and says what it sees, pod by pod.

A glance costs two calls however many pods there are; full facts are read only of pods that changed, or that a worker
has just touched. What disappears between two calls is simply not there.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from edged.cri.contract import ContainerId as CriContainerId
from edged.cri.contract import ContainerRuntime
from edged.cri.contract import SandboxId as CriSandboxId
from edged.cri.errors import NotFoundError
from edged.pods import labels
from edged.pods.facts import read_pod
from edged.pods.last_words import with_last_words
from edged.pods.model import PodFacts, PodRef, PodUid, RunState, SandboxId
from protos.cri.v1 import api_pb2 as cri

_STATES = {
    RunState.CREATED: cri.CONTAINER_CREATED,
    RunState.RUNNING: cri.CONTAINER_RUNNING,
    RunState.EXITED: cri.CONTAINER_EXITED,
    RunState.UNKNOWN: cri.CONTAINER_UNKNOWN,
}


class Glance(msgspec.Struct, frozen=True, gc=False):
    """What the lists say of one pod: enough to see that something changed."""

    ref: PodRef
    sandboxes: Mapping[str, bool]
    """Whether it is ready, by id."""
    containers: Mapping[str, tuple[str, int]]
    """Its sandbox and its CRI state, by id."""
    owner: str = ""
    """Which agent made its sandboxes; see `edged.pods.labels`."""


def glance_of(facts: PodFacts, owner: str) -> Glance:
    """The glance that the lists would give if these facts hold."""
    return Glance(
        facts.ref,
        {sandbox.id: sandbox.ready for sandbox in facts.sandboxes},
        {c.id: (c.sandbox_id, _STATES[c.state]) for c in facts.containers},
        owner,
    )


def changed_pods(before: Mapping[PodUid, Glance], now: Mapping[PodUid, Glance]) -> list[PodRef]:
    """The pods of which the two looks say different things, those that are gone included, in a fixed order."""
    changed = []
    for uid in sorted(before.keys() | now.keys()):
        old, new = before.get(uid), now.get(uid)
        seen = new or old
        if seen is not None and not is_same(old, new):
            changed.append(seen.ref)
    return changed


class RuntimeReader:
    """Reads facts from a runtime. Blocks; used by workers and by the PLEG, each on its own thread."""

    def __init__(self, runtime: ContainerRuntime) -> None:
        self._runtime = runtime

    def glances(self) -> dict[PodUid, Glance]:
        """All pods that the runtime knows, in two calls."""
        return _glances(self._runtime.list_pod_sandboxes(), self._runtime.list_containers())

    def look(self, ref: PodRef) -> PodFacts:
        """The facts of one pod, whether or not anything is known of it."""
        glance = self.glance(ref)
        return self.facts(glance) if glance is not None else PodFacts(ref)

    def glance(self, ref: PodRef) -> Glance | None:
        """What the lists say of one pod; None when it is not in the runtime."""
        selector = {labels.POD_UID: ref.uid}
        sandboxes = self._runtime.list_pod_sandboxes(cri.PodSandboxFilter(label_selector=selector))
        containers = self._runtime.list_containers(cri.ContainerFilter(label_selector=selector))
        return _glances(sandboxes, containers).get(ref.uid)

    def facts(self, glance: Glance) -> PodFacts:
        """The facts of one pod at which a glance was thrown."""
        facts = read_pod(
            glance.ref,
            self._sandbox_statuses(glance.sandboxes),
            self._container_statuses(glance.containers),
        )
        return replace(facts, containers=tuple(with_last_words(container) for container in facts.containers))

    def _sandbox_statuses(self, ids: Iterable[str]) -> Iterable[cri.PodSandboxStatus]:
        for sandbox in ids:
            try:
                yield self._runtime.pod_sandbox_status(CriSandboxId(sandbox)).status
            except NotFoundError:
                continue

    def _container_statuses(
        self, containers: Mapping[str, tuple[str, int]]
    ) -> Iterable[tuple[SandboxId, cri.ContainerStatus]]:
        for container, (sandbox, _) in containers.items():
            try:
                status = self._runtime.container_status(CriContainerId(container)).status
            except NotFoundError:
                continue
            yield SandboxId(sandbox), status


def _glances(sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> dict[PodUid, Glance]:
    refs: dict[PodUid, PodRef] = {}
    owners: dict[PodUid, str] = {}
    boxes: dict[PodUid, dict[str, bool]] = {}
    inmates: dict[PodUid, dict[str, tuple[str, int]]] = {}
    for sandbox in sandboxes:
        ref = labels.ref_from_labels(sandbox.labels)
        if ref is not None:
            refs[ref.uid] = ref
            owners[ref.uid] = sandbox.annotations.get(labels.OWNER, "")
            boxes.setdefault(ref.uid, {})[sandbox.id] = sandbox.state == cri.SANDBOX_READY
    for container in containers:
        ref = labels.ref_from_labels(container.labels)
        if ref is not None:
            refs.setdefault(ref.uid, ref)
            inmates.setdefault(ref.uid, {})[container.id] = (container.pod_sandbox_id, container.state)
    return {
        uid: Glance(ref, boxes.get(uid, {}), inmates.get(uid, {}), owners.get(uid, "")) for uid, ref in refs.items()
    }


def is_same(old: Glance | None, new: Glance | None) -> bool:
    """Whether two looks at one pod say the same."""
    if old is None or new is None:
        return old is new
    return old.sandboxes == new.sandboxes and old.containers == new.containers
