"""Ends what runs of a pod: containers beside each other, each with its grace period, then the sandboxes."""

from collections.abc import Callable, Iterable
from typing import Any

from beehive import Actor, Runtime
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.pods.model import ContainerFacts, PodFacts, RunState

Farewell = int | Callable[[ContainerFacts, Callable[[int], None]], None]
"""How a container is stopped: with so many seconds to end, or by what is given the container and its stop, and calls it
with the seconds when its time has come (see `edged.lifecycle.farewell`)."""


_MAY_RUN = (RunState.RUNNING, RunState.UNKNOWN)


class _Caller(Actor):
    """Runs one blocking call beside others."""

    def on_receive(self, message: Any) -> Any:
        """Call it."""
        return message()


def at_once(actors: Runtime, calls: Iterable[Callable[[], None]]) -> None:
    """Make blocking calls beside each other and return when all have ended; raises the first error, in their order.

    A single call is made on the caller's own thread.
    """
    waiting = list(calls)
    if len(waiting) == 1:
        waiting[0]()
        return
    callers = [actors.start(_Caller, name="caller") for _ in waiting]
    try:
        answers = [caller.ref.ask(call, block=False) for caller, call in zip(callers, waiting, strict=True)]
        errors = [error for error in map(_error_of, answers) if error is not None]
    finally:
        for caller in callers:
            caller.ref.stop(block=False)
    if errors:
        raise errors[0]


def kill_containers(
    actors: Runtime, runtime: ContainerRuntime, containers: Iterable[ContainerFacts], farewell: Farewell
) -> None:
    """Stop those of the containers that run, or of which the runtime does not know whether they do: one that is to have
    a successor must not run beside it (kubelet's computePodActions stops it first). Raises CriError.
    """

    def stop(container: ContainerFacts) -> Callable[[], None]:
        def within(seconds: int) -> None:
            runtime.stop_container(ContainerId(container.id), seconds)

        return lambda: within(farewell) if isinstance(farewell, int) else farewell(container, within)

    at_once(actors, [stop(container) for container in containers if container.state in _MAY_RUN])


def kill_pod(actors: Runtime, runtime: ContainerRuntime, facts: PodFacts, farewell: Farewell) -> None:
    """Stop the pod's containers, then its sandboxes. Raises CriError."""
    kill_containers(actors, runtime, facts.containers, farewell)
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
