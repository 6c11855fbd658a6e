"""`/runningpods`: the pods of the runtime, in the kubelet's form, with names and images only."""

from collections.abc import Iterable

from edged.api import Container, ObjectMeta, Pod
from edged.api.pods import PodSpec
from edged.pods.labels import ref_from_labels
from edged.pods.model import PodRef
from protos.cri.v1 import api_pb2 as cri


def running_pods(sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> tuple[Pod, ...]:
    """Return the pods with a ready sandbox or a running container (kubelet's GetPods without dead ones)."""
    found: dict[PodRef, list[Container]] = {}
    for sandbox in sandboxes:
        ref = ref_from_labels(sandbox.labels)
        if ref is not None and sandbox.state == cri.SANDBOX_READY:
            found.setdefault(ref, [])
    for container in containers:
        ref = ref_from_labels(container.labels)
        if ref is not None and container.state == cri.CONTAINER_RUNNING:
            made = Container(name=container.metadata.name, image=container.image.image)
            found.setdefault(ref, []).append(made)
    return tuple(_pod(ref, found[ref]) for ref in sorted(found, key=lambda ref: (ref.namespace, ref.name, ref.uid)))


def _pod(ref: PodRef, containers: list[Container]) -> Pod:
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace, uid=ref.uid)
    return Pod(metadata=metadata, spec=PodSpec(containers=tuple(sorted(containers, key=lambda each: each.name))))
