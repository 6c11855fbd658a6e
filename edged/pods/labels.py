"""Labels and annotations that identify our sandboxes and containers, and their pods.

They are a kubelet's, so that `crictl` and other tools show pods, and so that the agent finds its containers again after
a restart: the runtime alone keeps this. The runtime answers with those of all pods at once, in 16 MiB at most, and
without the answer a node manages no pod. So it gets the larger ones of a pod no more than it needs them.
"""

from collections.abc import Mapping
from typing import Final

from edged.pods.hash import container_hash, kubelet_hash
from edged.pods.model import PodRef, PodUid
from modules.apimachinery.types import Container, Pod, encode

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
"""A kubelet's hash of the container, which keeps it running when a kubelet takes the node over."""
DEFINITION_HASH = "edgecore.io/definition-hash"
"""This agent's hash of the container."""
RESTART_COUNT = "io.kubernetes.container.restartCount"
MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PORTS = "io.kubernetes.container.ports"
PRE_STOP = "io.kubernetes.container.preStopHandler"
DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"

OWNER = "edgecore.io/owner"
"""Annotation with the agent that made a sandbox. An agent removes only sandboxes with its own mark (docs/runtimes.md,
"Two agents on one containerd").
"""


MOST_ANNOTATIONS: Final = 32 * 1024
MOST_LABELS: Final = 16 * 1024
"""Characters of a pod's annotations and of its labels that the runtime gets."""
_LONGEST: Final = 4096
"""Characters of an annotation of a container, which only a kubelet that takes the node over reads."""


def ref_of(pod: Pod) -> PodRef:
    """Return the reference of a pod."""
    return PodRef(PodUid(pod.metadata.uid), pod.metadata.namespace, pod.metadata.name)


def ref_from_labels(labels: Mapping[str, str]) -> PodRef | None:
    """Return the pod of a sandbox or container with these labels, None when it is not a pod's."""
    uid, namespace, name = labels.get(POD_UID), labels.get(POD_NAMESPACE), labels.get(POD_NAME)
    return PodRef(PodUid(uid), namespace, name) if uid and namespace and name else None


def identity_labels(pod: Pod) -> dict[str, str]:
    """Return the three labels that name the pod."""
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """Return the pod's own labels, within their bound, and its identity, which wins."""
    return {**_shortest(pod.metadata.labels, MOST_LABELS), **identity_labels(pod)}


def sandbox_annotations(pod: Pod) -> dict[str, str]:
    """Return the pod's annotations, within their bound."""
    return _shortest(pod.metadata.annotations, MOST_ANNOTATIONS)


def _shortest(given: Mapping[str, str], most: int) -> dict[str, str]:
    """Return the shortest members that have so many characters together, in the order of `given`."""
    left, kept = most, set[str]()
    for key in sorted(given, key=lambda key: len(key) + len(given[key])):
        left -= len(key) + len(given[key])
        if left < 0:
            break
        kept.add(key)
    return {key: value for key, value in given.items() if key in kept}


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    """Return the pod's identity and the container's name."""
    return {**identity_labels(pod), CONTAINER_NAME: container.name}


def container_annotations(pod: Pod, container: Container, attempt: int) -> dict[str, str]:
    """Return everything needed to examine, report and stop the container without its pod, as a kubelet records it."""
    annotations = {
        HASH: kubelet_hash(container),
        DEFINITION_HASH: container_hash(container),
        RESTART_COUNT: str(attempt),
        MESSAGE_PATH: container.termination_message_path,
        MESSAGE_POLICY: container.termination_message_policy,
    }
    graces = {
        DELETION_GRACE: pod.metadata.deletion_grace_period_seconds,
        TERMINATION_GRACE: pod.spec.termination_grace_period_seconds,
    }
    annotations |= {key: str(grace) for key, grace in graces.items() if grace is not None}
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        annotations[PRE_STOP] = encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        annotations[PORTS] = encode(container.ports).decode()
    return {key: value for key, value in annotations.items() if len(value) <= _LONGEST}
