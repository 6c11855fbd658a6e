"""Reads a pod that came in a message or from the store; what is none is left out, and said so in the log.

One pod that cannot be read must not keep the others from running.
"""

import logging

from edged.api import Pod, decode
from edged.api.codec import DecodeError

_log = logging.getLogger(__name__)


def read_pod(raw: bytes, about: str) -> Pod | None:
    """The pod; None for what is none.

    Args:
        raw: its JSON.
        about: where it is from, for the log.
    """
    try:
        pod = decode(Pod, raw)
    except DecodeError as error:
        _log.error("pod %s is left out: %s", about, error)
        return None
    identity = (pod.metadata.uid, pod.metadata.name, pod.metadata.namespace)
    if all(identity) and not any("/" in part for part in identity):
        return pod
    _log.error("pod %s is left out: uid, name and namespace are wanted, without slashes", about)
    return None


def belongs_to(pod: Pod, node: str) -> bool:
    """Whether a pod is meant for this node; one that names none is, as the cloud has sent it here."""
    return pod.spec.node_name in ("", node)
