"""The steps between two statuses of a pod: containers that ended, and a pod that became ready or no longer is."""

from collections.abc import Iterator
from typing import NamedTuple

from edged.api import PodStatus
from edged.api.pod_status import ContainerStateTerminated, ContainerStatus


class StatusStep(NamedTuple):
    """A step that no Event tells."""

    reason: str
    text: str
    container: str = ""
    is_warning: bool = False


def steps_between(before: PodStatus, after: PodStatus) -> Iterator[StatusStep]:
    """Yield the steps from a status to the next one.

    The message of a container that ended is left out: a program may have written a secret into it.
    """
    for known, now in ((before.init_container_statuses, after.init_container_statuses),
                       (before.container_statuses, after.container_statuses)):  # fmt: skip
        earlier = {each.name: each for each in known}
        for status in now:
            yield from _ended(earlier.get(status.name), status)
    was_ready, is_ready = _is_ready(before), _is_ready(after)
    if is_ready and not was_ready:
        yield StatusStep("Ready", "the pod is ready")
    elif was_ready and not is_ready:
        yield StatusStep("NotReady", "the pod is not ready any more")
    if after.phase == "Succeeded" and before.phase != after.phase:
        yield StatusStep("Succeeded", "all containers ended with exit code 0")
    elif after.phase == "Failed" and before.phase != after.phase:
        yield StatusStep("Failed", f"the pod has failed{_because(after.reason)}", is_warning=True)


def _ended(before: ContainerStatus | None, after: ContainerStatus) -> Iterator[StatusStep]:
    known = [] if before is None else [before.state.terminated, before.last_state.terminated]
    ids = {_identity(each) for each in known if each is not None}
    for ended in (after.last_state.terminated, after.state.terminated):
        if ended is not None and _identity(ended) not in ids:
            because = _because(ended.reason if ended.reason not in ("Error", "Completed") else "")
            text = f"container {after.name} ended with exit code {ended.exit_code}{because}"
            yield StatusStep("Ended", text, after.name, ended.exit_code != 0)


def _identity(ended: ContainerStateTerminated) -> tuple[str, object]:
    return ended.container_id, ended.finished_at if not ended.container_id else None


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _is_ready(status: PodStatus) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in status.conditions)
