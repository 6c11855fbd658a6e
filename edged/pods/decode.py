"""Decodes pods and the Node from messages, the store and files; an unreadable object is left out and logged.

One unreadable pod must not keep the others from running. Quantities and times that edged computes with later are
therefore checked here, once: Go's decoder refuses them too, and a kubelet never sees such a pod.
"""

import logging
from collections.abc import Iterable

from msgspec.structs import replace

from modules.apimachinery.attempts import UnreadableError
from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE
from modules.apimachinery.types import Node, Pod, Quantity, decode, parse_quantity, parse_time
from modules.apimachinery.types.codec import DecodeError

_LONGEST_NAME = 253
"""Bytes of an object's name (Kubernetes' DNS1123SubdomainMaxLength)."""

_log = logging.getLogger(__name__)


def read_pod(raw: bytes, about: str) -> Pod | None:
    """Return the pod, or None when it cannot be read.

    Args:
        raw: the pod as JSON.
        about: its origin, for the log.
    """
    try:
        pod = decode(Pod, raw)
        check_pod(pod)
    except DecodeError as error:
        _log.error("pod %s is left out: %s", about, error)
        return None
    return pod


def read_cloud_pod(raw: bytes, about: str) -> Pod | None:
    """Return a pod of the cloud, as `read_pod` does, without the annotation of a static pod.

    Static pods are exempt from many rules, and only the machine's administrator may have them (a kubelet writes `api`
    over the annotation).
    """
    pod = read_pod(raw, about)
    if pod is None or CONFIG_SOURCE not in pod.metadata.annotations or CONFIG_MIRROR in pod.metadata.annotations:
        return pod
    notes = {key: value for key, value in pod.metadata.annotations.items() if key != CONFIG_SOURCE}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def read_node(raw: bytes, about: str, name: str) -> Node | None:
    """Return the Node object of that name; None when it cannot be read or has another name. `about` is for the log."""
    try:
        node = decode(Node, raw)
    except DecodeError as error:
        _log.error("node %s is left out: %s", about, error)
        return None
    return node if node.metadata.name == name else None


def check_pod(pod: Pod) -> None:
    """Raise DecodeError for a pod without an identity, or with invalid quantities or times."""
    if not all(map(_is_plain, (pod.metadata.uid, pod.metadata.name, pod.metadata.namespace))):
        raise DecodeError(
            "cannot read a Pod", "$.metadata", "uid, name and namespace are required, and must be usable as file names"
        )
    try:
        for quantity in _quantities(pod):
            parse_quantity(quantity)
        if pod.status.start_time:
            parse_time(pod.status.start_time)
    except UnreadableError as error:
        raise DecodeError("cannot read a Pod", str(error)) from error


def belongs_to(pod: Pod, node: str) -> bool:
    """Return whether a pod is for this node. A pod without a node name is: the cloud has sent it here."""
    return pod.spec.node_name in ("", node)


def _is_plain(name: str) -> bool:
    """Return whether a file can have this name."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name) and len(name.encode()) <= _LONGEST_NAME


def _quantities(pod: Pod) -> Iterable[Quantity]:
    yield from pod.spec.overhead.values()
    whole = [pod.spec.resources] if pod.spec.resources is not None else []
    for resources in (*whole, *(container.resources for container in pod.spec.all_containers)):
        yield from resources.requests.values()
        yield from resources.limits.values()
