"""Invariants of a node's calls of its container runtime."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edged.pods import labels
from modules.lab.simulate.ended_watch import EndedWatch
from modules.lab.simulate.world import World
from protos.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from modules.lab.simulate.machine import Machine

_ENDING = ("stop_container", "remove_container", "stop_pod_sandbox", "remove_pod_sandbox")
_INIT = "init-"


class RuntimeWatch:
    """The check of every call that a node makes of its container runtime.

    Args:
        world: collects violations.
        node: node of the runtime.
        machine: the runtime.
    """

    def __init__(self, world: World, node: str, machine: "Machine") -> None:
        self._world = world
        self._node = node
        self._machine = machine
        self.wants_running: Callable[[str], bool] = lambda _uid: False
        """Whether the cloud has the pod of that uid unchanged: then its containers must not be ended."""
        self.is_stale: Callable[[], bool] = lambda: False
        """Whether cloudcore may end a pod for one from before a restore, and give it back: its attempts start over."""
        self.foreign: set[str] = set()
        """Ids of another agent's sandboxes and containers."""
        self.started: dict[tuple[str, str], int] = {}
        """Last started attempt of each container, by pod uid and name."""
        self.ended: EndedWatch = EndedWatch(world, node)
        """Invariants of deleted pods."""
        self.reborn: set[str] = set()
        """Uids of static pods whose file was removed: their attempts start over with a new file."""
        self.may_return: set[str] = set()
        """Uids of pods from before a restore of the API server: a cloudcore that has not been restarted since may give
        them to the node again when the node has removed them. Then their attempts start over.
        """
        self._done: set[tuple[str, str]] = set()
        """Init containers that ended well and were removed since, by sandbox and name."""

    def before(self, operation: str, args: tuple[Any, ...]) -> None:
        """Check a changing call before it takes effect."""
        on = args[0] if isinstance(args[0], str) else ""
        if on in self.foreign:
            self._violated("nothing of others is touched", f"{operation} of {on}, which is not this node's")
        if operation in _ENDING:
            self._check_ending(operation, on)
        elif operation == "run_pod_sandbox":
            self._check_sandbox(args[0])
            self.ended.starts(args[0].metadata.uid, "a sandbox")
        elif operation == "start_container":
            self._check_start(on)
        elif operation == "create_container":
            self._check_attempt(args[1])

    def after(self, operation: str, args: tuple[Any, ...], result: Any) -> None:
        """Note a call that has taken effect."""
        if operation == "start_container":
            container = self._machine.containers[args[0]]
            key = (container.labels[labels.POD_UID], container.metadata.name)
            self.started[key] = container.metadata.attempt
        elif operation == "remove_pod_sandbox":
            self._forget_removed()
        self._world.log_line(
            self._node, f"cri {operation} {self._about(args)} {result if isinstance(result, str) else ''}"
        )

    def live(self) -> None:
        """Check that each pod has at most one live sandbox, and one live container of each name."""
        seen: set[tuple[str, ...]] = set()
        for sandbox in self._machine.sandboxes.values():
            if sandbox.state == pb.SANDBOX_READY:
                self._once(seen, (sandbox.metadata.uid,), "two live sandboxes")
        for container in self._machine.containers.values():
            if container.state == pb.CONTAINER_RUNNING:
                key = (container.labels[labels.POD_UID], container.metadata.name)
                self._once(seen, key, "two live containers")

    def restored(self) -> None:
        """Note that the API server has an older state again."""
        self.may_return |= {uid for uid, _ in self.started}

    def _forget_removed(self) -> None:
        left = {sandbox.metadata.uid for sandbox in self._machine.sandboxes.values()}
        removed = self.may_return - left
        self.may_return -= removed
        self.started = {key: attempt for key, attempt in self.started.items() if key[0] not in removed}

    def _once(self, seen: set[tuple[str, ...]], key: tuple[str, ...], what: str) -> None:
        if key in seen and key[0]:
            self._violated("one live sandbox and container", f"{what} of {' '.join(key)}")
        seen.add(key)

    def _check_sandbox(self, config: pb.PodSandboxConfig) -> None:
        for sandbox in self._machine.sandboxes.values():
            if sandbox.metadata.uid == config.metadata.uid and sandbox.state == pb.SANDBOX_READY:
                self._violated("one live sandbox and container", f"a second sandbox for {config.metadata.name}")

    def _check_attempt(self, config: pb.ContainerConfig) -> None:
        key = (config.labels[labels.POD_UID], config.metadata.name)
        last = self.started.get(key)
        may_start_over = key[0] in self.reborn or self.is_stale()
        if last is not None and config.metadata.attempt <= last and not may_start_over:
            text = (
                f"{key[1]} of {self._pod(config)} is made as number {config.metadata.attempt} after {last} was started"
            )
            self._violated("restart counts are right", text)

    def _check_start(self, container_id: str) -> None:
        container = self._machine.containers.get(container_id)
        if container is None:
            return
        uid, name = container.labels[labels.POD_UID], container.metadata.name
        self.ended.starts(uid, f"container {name}")
        for other in self._machine.containers.values():
            same = other.labels[labels.POD_UID] == uid and other.metadata.name == name and other.id != container_id
            if same and other.state == pb.CONTAINER_RUNNING:
                self._violated(
                    "one live sandbox and container", f"a second {name} of {self._pod(container)} is started"
                )
        self._check_init(container)

    def _check_init(self, container: pb.ContainerStatus) -> None:
        """Check that init containers run one after the other, and before all others, in each sandbox."""
        pod, name = container.labels[labels.POD_NAME], container.metadata.name
        if not pod.startswith("init"):
            return
        sandbox = self._machine.sandbox_of[container.id]
        before = ["init-1"] if name == "init-2" else ["init-1", "init-2"] if not name.startswith(_INIT) else []
        for each in before:
            if (sandbox, each) not in self._done and not self._ended_well(sandbox, each):
                self._violated(
                    "init containers come first, in order", f"{name} of {self._pod(container)} before {each}"
                )

    def _ended_well(self, sandbox: str, name: str) -> bool:
        return any(
            c.metadata.name == name and c.state == pb.CONTAINER_EXITED and c.exit_code == 0
            for c in self._machine.containers.values()
            if self._machine.sandbox_of[c.id] == sandbox
        )

    def _check_ending(self, operation: str, on: str) -> None:
        for container in self._machine.containers.values():
            sandbox = self._machine.sandbox_of[container.id]
            if on not in (container.id, sandbox):
                continue
            if operation == "remove_container":
                self._check_newest(container)
            if operation == "remove_container" and container.state == pb.CONTAINER_EXITED and container.exit_code == 0:
                self._done.add((sandbox, container.metadata.name))
            ready = self._machine.sandboxes[sandbox].state == pb.SANDBOX_READY
            if (
                container.state == pb.CONTAINER_RUNNING
                and ready
                and self.wants_running(container.labels[labels.POD_UID])
                and not self._machine.probes.may_end(container.id)
                and not self._machine.evictions.may_evict
            ):
                text = f"{operation} ends {container.metadata.name} of {self._pod(container)}, which is wanted"
                self._violated("nothing that is wanted is ended", text)

    def _check_newest(self, removed: pb.ContainerStatus) -> None:
        """Check that of each container of an active pod the newest attempt that has ended stays: restart count and
        back-off are taken from it.
        """
        uid, name, attempt = removed.labels[labels.POD_UID], removed.metadata.name, removed.metadata.attempt
        if removed.state != pb.CONTAINER_EXITED or not self.wants_running(uid):
            return
        others = [c for c in self._machine.containers.values() if c.labels[labels.POD_UID] == uid and c is not removed]
        if not any(c.metadata.name == name and c.metadata.attempt > attempt for c in others):
            text = f"{name}#{attempt} of {self._pod(removed)} is removed"
            self._violated("the newest attempt is never removed", text)

    def _pod(self, thing: pb.ContainerStatus | pb.ContainerConfig) -> str:
        return f"{thing.labels[labels.POD_NAME]} ({thing.labels[labels.POD_UID][:8]})"

    def _about(self, args: tuple[Any, ...]) -> str:
        first = args[0]
        if isinstance(first, pb.PodSandboxConfig):
            return f"{first.metadata.name} ({first.metadata.uid[:8]})"
        if isinstance(first, str) and len(args) > 1 and isinstance(args[1], pb.ContainerConfig):
            return f"{first} {args[1].metadata.name}#{args[1].metadata.attempt} of {self._pod(args[1])}"
        return str(first).replace("\n", " ")[:60]

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")
