"""The end of a pod's containers, concurrently and each with its grace period, and then of its sandboxes."""

from collections.abc import Callable, Iterable
from typing import Any

from beehive import Runtime
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.pods.model import ContainerFacts, PodFacts, RunState

StopContainer = int | Callable[[ContainerFacts, Callable[[int], None]], None]
"""How a container is stopped: with this time limit in seconds, or by a function that takes the container and its stop,
and calls the stop with a time limit (see `edged.lifecycle.stop_container`)."""

_MAY_RUN = (RunState.RUNNING, RunState.UNKNOWN)


def run_concurrently(actors: Runtime, calls: Iterable[Callable[[], None]]) -> None:
    """Make blocking calls concurrently, and return when all have ended. Raises the first error, in their order.

    A single call is made on the caller's own thread.
    """
    waiting = list(calls)
    if len(waiting) == 1:
        waiting[0]()
        return
    answers = [actors.call(call, name="caller") for call in waiting]
    errors = [error for error in map(_error_of, answers) if error is not None]
    if errors:
        raise errors[0]


def kill_containers(
    actors: Runtime, runtime: ContainerRuntime, containers: Iterable[ContainerFacts], how: StopContainer
) -> None:
    """Stop the containers that run, and those in an unknown state: a container must not run beside its successor
    (kubelet's computePodActions stops it first). Raises CriError.
    """

    def stop(container: ContainerFacts) -> Callable[[], None]:
        def within(seconds: int) -> None:
            runtime.stop_container(ContainerId(container.id), seconds)

        return lambda: within(how) if isinstance(how, int) else how(container, within)

    run_concurrently(actors, [stop(container) for container in containers if container.state in _MAY_RUN])


def kill_pod(actors: Runtime, runtime: ContainerRuntime, facts: PodFacts, how: StopContainer) -> None:
    """Stop the pod's containers, then its sandboxes. Raises CriError."""
    kill_containers(actors, runtime, facts.containers, how)
    for sandbox in facts.sandboxes:
        if sandbox.ready:
            runtime.stop_pod_sandbox(SandboxId(sandbox.id))


def remove_pod(runtime: ContainerRuntime, facts: PodFacts) -> None:
    """Remove the containers and sandboxes of a pod that has been killed. Raises CriError."""
    for container in facts.containers:
        runtime.remove_container(ContainerId(container.id))
    for sandbox in facts.sandboxes:
        runtime.stop_pod_sandbox(SandboxId(sandbox.id))
        runtime.remove_pod_sandbox(SandboxId(sandbox.id))


def _error_of(answer: Any) -> BaseException | None:
    try:
        answer.get()
    except Exception as error:  # noqa: BLE001 - handed to the caller once all have ended
        return error
    return None
