"""Reads pods from the container runtime.

A snapshot costs two calls for any number of pods; full facts are read only of pods that changed, or that a worker has
just changed. An object that disappears between two calls is left out.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edged.cri.contract import ContainerId as CriContainerId
from edged.cri.contract import ContainerRuntime
from edged.cri.contract import SandboxId as CriSandboxId
from edged.cri.errors import NotFoundError
from edged.pleg.termination_message import with_termination_message
from edged.pods import labels
from edged.pods.facts import listed_pod, read_pod
from edged.pods.model import PodFacts, PodRef, PodUid, RunState, SandboxId
from protos.cri.v1 import api_pb2 as cri

_STATES = {
    RunState.CREATED: cri.CONTAINER_CREATED,
    RunState.RUNNING: cri.CONTAINER_RUNNING,
    RunState.EXITED: cri.CONTAINER_EXITED,
    RunState.UNKNOWN: cri.CONTAINER_UNKNOWN,
}


class PodSnapshot(msgspec.Struct, frozen=True, gc=False):
    """A pod's sandboxes and containers by the runtime's lists: enough to detect a change."""

    ref: PodRef
    sandboxes: Mapping[str, bool]
    """Whether each sandbox is ready, by id."""
    containers: Mapping[str, tuple[str, int]]
    """Sandbox and CRI state of each container, by id."""
    owner: str = ""
    """The agent that made its sandboxes; see `edged.pods.labels`."""


def snapshot_of(facts: PodFacts, owner: str = "") -> PodSnapshot:
    """Return the snapshot that the runtime's lists would give for these facts."""
    return PodSnapshot(
        facts.ref,
        {sandbox.id: sandbox.ready for sandbox in facts.sandboxes},
        {c.id: (c.sandbox_id, _STATES[c.state]) for c in facts.containers},
        owner,
    )


def changed_pods(before: Mapping[PodUid, PodSnapshot], now: Mapping[PodUid, PodSnapshot]) -> list[PodRef]:
    """Return the pods that differ between two snapshots, removed ones included, sorted by uid."""
    changed = []
    for uid in sorted(before.keys() | now.keys()):
        old, new = before.get(uid), now.get(uid)
        seen = new or old
        if seen is not None and not is_same(old, new):
            changed.append(seen.ref)
    return changed


class RuntimeReader:
    """A reader of snapshots and facts from a runtime. Blocks; workers and the PLEG use it, each on its own thread.

    Every method raises CriError when the runtime fails.
    """

    def __init__(self, runtime: ContainerRuntime) -> None:
        self._runtime = runtime

    def snapshots(self) -> dict[PodUid, PodSnapshot]:
        """Return all pods that the runtime has, in two calls."""
        return _snapshots(self._runtime.list_pod_sandboxes(), self._runtime.list_containers())

    def read_pod(self, ref: PodRef) -> PodFacts:
        """Return the facts of one pod; empty ones when the runtime does not have it."""
        snapshot = self.snapshot(ref)
        return self.facts(snapshot) if snapshot is not None else PodFacts(ref)

    def read_again(self, found: PodFacts, sandbox: str = "", made: Iterable[str] = ()) -> PodFacts:
        """Return the facts of a pod without its lists: of what was found, and of what was made since, a sandbox and
        containers in it. Only workers make them, and one worker has the pod at a time.
        """
        known = snapshot_of(found)
        sandboxes = {**known.sandboxes, sandbox: True} if sandbox else known.sandboxes
        containers = {**known.containers, **dict.fromkeys(made, (sandbox, cri.CONTAINER_CREATED))}
        return self.facts(PodSnapshot(found.ref, sandboxes, containers))

    def list_pod(self, ref: PodRef) -> PodFacts:
        """Return the facts of one pod in two calls, as far as the lists have them: enough to stop and to remove it."""
        return listed_pod(ref, *self._lists(ref))

    def snapshot(self, ref: PodRef) -> PodSnapshot | None:
        """Return the snapshot of one pod; None when the runtime does not have it."""
        return _snapshots(*self._lists(ref)).get(ref.uid)

    def facts(self, snapshot: PodSnapshot) -> PodFacts:
        """Return the facts of the pod of a snapshot."""
        facts = read_pod(
            snapshot.ref,
            self._sandbox_statuses(snapshot.sandboxes),
            self._container_statuses(snapshot.containers),
        )
        return replace(facts, containers=tuple(with_termination_message(container) for container in facts.containers))

    def _lists(self, ref: PodRef) -> tuple[Sequence[cri.PodSandbox], Sequence[cri.Container]]:
        selector = {labels.POD_UID: ref.uid}
        return (
            self._runtime.list_pod_sandboxes(cri.PodSandboxFilter(label_selector=selector)),
            self._runtime.list_containers(cri.ContainerFilter(label_selector=selector)),
        )

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


def _snapshots(sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> dict[PodUid, PodSnapshot]:
    refs: dict[PodUid, PodRef] = {}
    owners: dict[PodUid, str] = {}
    sandboxes_of: dict[PodUid, dict[str, bool]] = {}
    containers_of: dict[PodUid, dict[str, tuple[str, int]]] = {}
    for sandbox in sandboxes:
        ref = labels.ref_from_labels(sandbox.labels)
        if ref is not None:
            refs[ref.uid] = ref
            owners[ref.uid] = sandbox.annotations.get(labels.OWNER, "")
            sandboxes_of.setdefault(ref.uid, {})[sandbox.id] = sandbox.state == cri.SANDBOX_READY
    for container in containers:
        ref = labels.ref_from_labels(container.labels)
        if ref is not None:
            refs.setdefault(ref.uid, ref)
            containers_of.setdefault(ref.uid, {})[container.id] = (container.pod_sandbox_id, container.state)
    return {
        uid: PodSnapshot(ref, sandboxes_of.get(uid, {}), containers_of.get(uid, {}), owners.get(uid, ""))
        for uid, ref in refs.items()
    }


def is_same(old: PodSnapshot | None, new: PodSnapshot | None) -> bool:
    """Return whether two snapshots of one pod are equal."""
    if old is None or new is None:
        return old is new
    return old.sandboxes == new.sandboxes and old.containers == new.containers
