"""Kills at a named call of the container runtime."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from edged.pods import labels
from protos.cri.v1 import api_pb2 as pb


class Trap(NamedTuple):
    """A trap that kills an agent as soon as a call of a certain kind has taken effect, before the agent gets its
    answer.
    """

    call: str
    """The operation and, for calls on a container, the container's name: `create_container main`."""
    pod: str
    """Name of the pod."""
    die: Callable[[], None]


def called(operation: str, args: tuple[Any, ...], containers: Mapping[Any, pb.ContainerStatus]) -> tuple[str, str]:
    """Return a changing call as in `Trap.call`, and the name of its pod; `containers` are the runtime's."""
    first = args[0]
    if isinstance(first, pb.PodSandboxConfig):
        return operation, first.metadata.name
    about = args[1] if operation == "create_container" else containers.get(first) if isinstance(first, str) else None
    if about is None:
        return operation, ""
    return f"{operation} {about.metadata.name}", about.labels[labels.POD_NAME]
