"""The labels and annotations by which sandboxes and containers are known to be ours, and whose.

They are a kubelet's own, so that `crictl` and other tools show pods, and so that what runs is found again
after a restart of the agent: the runtime is the only place where that is kept.
"""

from collections.abc import Mapping

from edged.api import Container, Pod, encode
from edged.pods.hash import container_hash
from edged.pods.model import PodRef, PodUid

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PORTS = "io.kubernetes.container.ports"
PRE_STOP = "io.kubernetes.container.preStopHandler"
DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"

OWNER = "edgecore.io/owner"
"""Annotation of a sandbox: which agent made it. An agent cleans up only what carries its own mark (spec/10
§1).
"""


def ref_of(pod: Pod) -> PodRef:
    """Which pod this is."""
    return PodRef(PodUid(pod.metadata.uid), pod.metadata.namespace, pod.metadata.name)


def ref_from_labels(labels: Mapping[str, str]) -> PodRef | None:
    """The pod that a sandbox or container with these labels belongs to, None when it is not a pod's."""
    if not all(labels.get(key) for key in (POD_UID, POD_NAMESPACE, POD_NAME)):
        return None
    return PodRef(PodUid(labels[POD_UID]), labels[POD_NAMESPACE], labels[POD_NAME])


def identity_labels(pod: Pod) -> dict[str, str]:
    """The three labels that name the pod."""
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """The pod's own labels and its identity, which wins."""
    return {**pod.metadata.labels, **identity_labels(pod)}


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    """The pod's identity and the container's name."""
    return {**identity_labels(pod), CONTAINER_NAME: container.name}


def container_annotations(pod: Pod, container: Container, attempt: int) -> dict[str, str]:
    """What is needed to judge, report and stop the container without the pod at hand, as a kubelet records
    it.
    """
    annotations = {
        HASH: container_hash(container),
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
    return annotations
