"""Lookup of the pod and container that a path names, by the last computed statuses.

The rules are the kubelet's (`validateContainerLogStatus`, `findContainer`), so that `kubectl` shows the usual messages.
Pure, on the snapshot of the pods: the runtime is not called, so the reason why a pod waits is returned immediately.
"""

from collections.abc import Iterable

from beehive.http.errors import HttpStatusError
from edged.cri.contract import ContainerId
from modules.apimachinery.types import ContainerStatus, Pod

_NO_ID = ContainerId("")


def find_pod(pods: Iterable[Pod], namespace: str, name: str, uid: str = "") -> Pod:
    """Return the pod with a name; the newest while an older one is still terminating.

    Raises:
        HttpStatusError: 404.
    """
    found = [
        pod
        for pod in pods
        if (pod.metadata.namespace, pod.metadata.name) == (namespace, name) and uid in ("", pod.metadata.uid)
    ]
    if not found:
        raise HttpStatusError(404, "no such pod on this node", f"{namespace}/{name}", "`edgecore pods` lists them")
    return found[-1]


def find_status(pod: Pod, container: str) -> ContainerStatus | None:
    """Return the status of a container, or None.

    Raises:
        HttpStatusError: 404; the pod has no such container.
    """
    names = [each.name for each in pod.spec.all_containers]
    if container not in names:
        about = f"{container} of pod {pod.metadata.namespace}/{pod.metadata.name}"
        raise HttpStatusError(404, "no such container", about, f"it has {', '.join(names)}")
    status = pod.status
    every = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    return next((each for each in every if each.name == container), None)


def id_of(text: str) -> ContainerId:
    """Return the runtime's container ID out of a status's `containerd://<id>`."""
    return ContainerId(text.partition("://")[2])


def container_of_log(pod: Pod, container: str, *, previous: bool = False) -> ContainerId:
    """Return the container whose log is requested: the running one, else the last terminated one.

    Args:
        pod: the pod.
        container: its container.
        previous: return the last terminated one.

    Raises:
        HttpStatusError: 404 for an unknown name, 400 when the container has not started yet or has no previous one.
    """
    status = find_status(pod, container)
    last = status.last_state.terminated if status else None
    if previous:
        found = id_of(last.container_id) if last else _NO_ID
        if not found:
            raise HttpStatusError(400, "no previous terminated container", _about(pod, container))
        return found
    ended = status.state.terminated if status is not None else None
    if status is not None and status.state.running:
        found = id_of(status.container_id)
    else:  # an end without an id is that of a container that was lost
        found = (id_of(ended.container_id) if ended else _NO_ID) or (id_of(last.container_id) if last else _NO_ID)
    if not found:
        raise HttpStatusError(400, "the container is waiting to start", _about(pod, container), _why(status))
    return found


def running_container(pod: Pod, container: str = "") -> ContainerId:
    """Return the running container for a command; without a name the pod's only one.

    Raises:
        HttpStatusError: 404 for an unknown name, 400 when it does not run.
    """
    status = find_status(pod, container or only_container(pod))
    if status is None or not status.state.running or not status.container_id:
        about = _about(pod, container or only_container(pod))
        raise HttpStatusError(400, "the container does not run", about, _why(status))
    return id_of(status.container_id)


def only_container(pod: Pod) -> str:
    """Return the name of a pod's only container.

    Raises:
        HttpStatusError: 400; the pod has several.
    """
    names = [each.name for each in pod.spec.containers]
    if len(names) != 1:
        about = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise HttpStatusError(400, "a container name must be specified for pod", about, f"it has {', '.join(names)}")
    return names[0]


def runs(pods: Iterable[Pod], uid: str, container: str, which: ContainerId) -> bool:
    """Return whether this container runs by the last status of its pod; without its pod it does not."""
    pod = next((each for each in pods if each.metadata.uid == uid), None)
    status = find_status(pod, container) if pod else None
    return status is not None and status.state.running is not None and id_of(status.container_id) == which


def _about(pod: Pod, container: str) -> str:
    return f"{container} of pod {pod.metadata.namespace}/{pod.metadata.name}"


def _why(status: ContainerStatus | None) -> str:
    waiting = status.state.waiting if status else None
    ended = status.state.terminated if status else None
    if ended is not None:
        return f"it has ended: {ended.reason or ended.exit_code}"
    return ": ".join(filter(None, (waiting.reason, waiting.message))) if waiting else "nothing is known of it yet"
