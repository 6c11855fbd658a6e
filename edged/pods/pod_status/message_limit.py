"""The limit of termination messages in a pod's status (kubelet's normalizeStatus)."""

from collections.abc import Sequence

from msgspec.structs import replace

from edged.api import ContainerState, ContainerStatus, Pod

LONGEST_OF_POD = 12 * 1024
"""Bytes that all containers of a pod share evenly (MaxPodTerminationMessageLogLength)."""


def share_of_message(pod: Pod) -> int:
    """Return the longest message of one container in the pod's status, in bytes."""
    return LONGEST_OF_POD // max(len(pod.spec.all_containers), 1)


def shortened(statuses: Sequence[ContainerStatus], limit: int) -> tuple[ContainerStatus, ...]:
    """Return the statuses with their messages cut to `limit` bytes."""
    return tuple(
        replace(status, state=_short(status.state, limit), last_state=_short(status.last_state, limit))
        for status in statuses
    )


def _short(state: ContainerState, limit: int) -> ContainerState:
    ending = state.terminated
    if ending is None or len(ending.message) * 4 <= limit or len(encoded := ending.message.encode()) <= limit:
        return state
    message = encoded[:limit].decode(errors="ignore")
    return replace(state, terminated=replace(ending, message=message))
