"""Validation of pods, for the fields that this node relies on (Kubernetes' ValidatePodSpec).

An API server has validated its pods; static pods, pods of a store and pods of clouds without validation come as they
are. A number that no kernel accepts would fail at every sync of the pod: the pod is rejected once, in the API server's
words.
"""

from typing import Final

from edged.pods.kill_options import KillOptions
from modules.apimachinery.types import Pod, to_value
from modules.apimachinery.validation.causes import Causes, too_many

REASON: Final = "FailedValidation"
"""Reason in the status and the event of an invalid pod (kubelet's)."""

MOST_CONTAINERS: Final = 256
"""Maximum of containers of each kind in a pod. An API server only limits the size of an object, into which twenty
thousand fit; the work for a pod grows with their number squared, for each of them changes a status that lists all.
"""
MOST_VOLUMES: Final = 512
"""Maximum of volumes of a pod."""

_MOST: Final = 20
"""Maximum of field errors in a message."""


def validate_pod(pod: Pod) -> KillOptions | None:
    """Return the kill options of an invalid pod, with its field errors; None for a valid one."""
    found = field_errors(pod)
    if not found:
        return None
    more = len(found) - _MOST + found.more
    told = ", ".join(map(str, found[:_MOST]))
    text = f"{told} and {more} more" if more > 0 else told
    return KillOptions(REASON, f"Pod was rejected: Pod is invalid: {text}", rejected=True)


def field_errors(pod: Pod) -> Causes:
    """Return the errors of a pod, each with the path of its field (`spec.containers[0].name: Required value`)."""
    found = Causes()
    for field, number, most in (
        ("containers", len(pod.spec.all_containers), MOST_CONTAINERS),
        ("volumes", len(pod.spec.volumes), MOST_VOLUMES),
    ):
        if number > most:
            found.append(too_many(f"spec.{field}", number, most))
    if not found:
        from modules.apimachinery.validation.pod_spec import rules_on_nodes  # noqa: PLC0415 - with the first pod

        rules_on_nodes()(to_value(pod), "", found)
    return found
