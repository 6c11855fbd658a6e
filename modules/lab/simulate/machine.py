"""The machine of a simulated node."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

from beehive.clock import Timer
from edged.cri.contract import ContainerId, ContainerRuntime, ExecResult
from edged.cri.errors import ConnectionClosedError, CriError, DeadlineExceededError, UnavailableError, error_of
from edged.node.machine import FileSystem, MachineInfo, MachineUsage
from edged.node.machine import MachineFacts as MachineFigures
from edged.pods import labels
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.simulate.eviction_watch import EvictionWatch
from modules.lab.simulate.latency_watch import LatencyWatch
from modules.lab.simulate.probe_watch import ProbeWatch
from modules.lab.simulate.runtime_watch import RuntimeWatch
from modules.lab.simulate.trap import Trap, called
from modules.lab.simulate.world import Process, WallClock, World
from protos.cri.v1 import api_pb2 as pb
from protos.status import StatusCode

GIBIBYTE = 1 << 30
_LOW = GIBIBYTE // 32
"""Bytes of available memory below the threshold of evictions (100 MiB)."""
_STUBBORN = 3.0
"""Seconds that a stubborn container takes to end."""
_LISTS = ("list_pod_sandboxes", "list_containers", "pod_sandbox_status", "container_status")
_CHANGES = (
    "run_pod_sandbox",
    "stop_pod_sandbox",
    "remove_pod_sandbox",
    "create_container",
    "start_container",
    "stop_container",
    "remove_container",
    "pull_image",
)


class Machine(FakeRuntime):
    """A machine's container runtime, which outlives the node's processes, with its failures.

    The command of a container decides how it ends: `run 5 1` ends after 5 s with status 1, any other runs until it is
    stopped, and `stubborn` takes a while to stop.

    Args:
        world: the world of the run.
        name: name of the node.
        images: images that are present.
    """

    def __init__(self, world: World, name: str, images: list[str]) -> None:
        self.wall = WallClock()
        self.kernel = Process(world, f"{name}-machine", self.wall)
        super().__init__(self.kernel, images)
        self.world = world
        self.probes = ProbeWatch(world, name)
        self.delays = LatencyWatch(world, name)
        self.evictions = EvictionWatch(world, name, self._runs)
        self.watch = RuntimeWatch(world, name, self)
        self.traps: list[Trap] = []
        self.ends: dict[str, Timer] = {}
        self.refuses = 0.0
        """Share of calls that fail without an effect."""
        self.loses = 0.0
        """Share of calls that take effect and time out."""
        self.slow = 0.0
        """Additional seconds of each changing call."""
        self._lists: dict[str, Sequence[Any]] = {}
        self.relist_fails = 0
        self.no_pulls = 0
        self.lost_events = 0.0
        """Share of events that are lost."""
        self.twice_events = 0.0
        """Share of events that are sent twice."""
        self.late_events = 0.0
        """Longest delay of an event in seconds; later events may overtake it."""
        self.no_events = 0

    def list_pod_sandboxes(self, sandbox_filter: pb.PodSandboxFilter | None = None) -> Sequence[pb.PodSandbox]:
        """List sandboxes. The unfiltered list, which is requested every second, is made again only after a change."""
        if sandbox_filter is not None:
            return super().list_pod_sandboxes(sandbox_filter)
        known: Sequence[pb.PodSandbox] | None = self._lists.get("sandboxes")
        if known is None:
            known = self._lists["sandboxes"] = super().list_pod_sandboxes()
        return known

    def list_containers(self, container_filter: pb.ContainerFilter | None = None) -> Sequence[pb.Container]:
        """List containers; the unfiltered list is kept until a change, too."""
        if container_filter is not None:
            return super().list_containers(container_filter)
        known: Sequence[pb.Container] | None = self._lists.get("containers")
        if known is None:
            known = self._lists["containers"] = super().list_containers()
        return known

    def changed(self) -> None:
        """Drop the kept lists."""
        self._lists.clear()

    def _exit(self, container: pb.ContainerStatus, exit_code: int, reason: str) -> None:
        self.changed()
        if container.state == pb.CONTAINER_RUNNING:
            self.delays.ended(container.id, container.labels[labels.POD_UID], container.metadata.name)
        super()._exit(container, exit_code, reason)

    def _deliver(self, event: pb.ContainerEventResponse) -> None:
        """Send an event to the clients, subject to the active faults."""
        draw = self.kernel.clock.random
        if self.lost_events and draw.random() < self.lost_events:
            return
        for _ in range(2 if self.twice_events and draw.random() < self.twice_events else 1):
            if self.late_events:
                self.kernel.clock.after(draw.uniform(0, self.late_events), partial(super()._deliver, event))
            else:
                super()._deliver(event)

    def add_foreign(self) -> None:
        """Run a pod of another node agent on the machine."""
        identity = {labels.POD_NAME: "neighbour", labels.POD_NAMESPACE: "default", labels.POD_UID: "of-another-agent"}
        metadata = pb.PodSandboxMetadata(name="neighbour", namespace="default", uid="of-another-agent")
        config = pb.PodSandboxConfig(metadata=metadata, labels=identity, annotations={labels.OWNER: "/another/agent"})
        sandbox = self.run_pod_sandbox(config)
        container = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="main"),
            image=pb.ImageSpec(image=sorted(self._images)[0]),
            labels={**identity, labels.CONTAINER_NAME: "main"},
            command=["serve"],
        )
        made = self.create_container(sandbox, container, config)
        self.start_container(made)
        self.watch.foreign.update((sandbox, made))

    def record_stop(self, container_id: str) -> None:
        """Note that the node is about to stop a container, whether or not the runtime does so."""
        if not self.evictions.may_evict:
            return
        container = self.containers.get(container_id)
        uid = container.labels[labels.POD_UID] if container is not None else ""
        if self.watch.wants_running(uid) and not self.probes.may_end(container_id):
            self.evictions.begins(uid)

    def _runs(self, uid: str) -> bool:
        return any(
            one.labels[labels.POD_UID] == uid and one.state == pb.CONTAINER_RUNNING for one in self.containers.values()
        )

    def images_lost(self) -> None:
        """Remove all images."""
        self._images.clear()

    def start_container(self, container_id: ContainerId) -> None:
        """Start a container and schedule its own end."""
        super().start_container(container_id)
        command = list(self.configs[container_id].command)
        if command[:1] == ["run"]:
            seconds, code = float(command[1]), int(command[2])
            self.kernel.clock.after(seconds, lambda: self.container_died(container_id, code))

    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        """Answer a probe."""
        super().exec_sync(container_id, command, timeout_seconds)
        return self.probes.answer(container_id, command)

    def stop_container(self, container_id: ContainerId, grace_seconds: int) -> None:
        """Stop a container; a stubborn one takes a while."""
        config = self.configs.get(container_id)
        self.obeys = _STUBBORN if config is not None and list(config.command) == ["stubborn"] else 0.0
        super().stop_container(container_id, grace_seconds)

    def container_died(self, container_id: str, code: int) -> None:
        """End one container."""
        self._exit_later(container_id, code)

    def sandbox_died(self, sandbox_id: str) -> None:
        """End a sandbox with all its containers."""
        super().stop_pod_sandbox(cast("Any", sandbox_id))
        self.changed()

    def reboot(self) -> None:
        """End all sandboxes."""
        for sandbox in list(self.sandboxes):
            self.sandbox_died(sandbox)

    def live_containers(self) -> list[str]:
        """Return the ids of the node's running containers, oldest first."""
        running = (c.id for c in self.containers.values() if c.state == pb.CONTAINER_RUNNING)
        return [one for one in running if one not in self.watch.foreign]

    def client(self, process: Process) -> ContainerRuntime:
        """Return a process's client; the clients of killed processes get no more events."""
        self._streams.clear()
        return cast("ContainerRuntime", RuntimeClient(self, process))


class RuntimeClient:
    """A process's client of the machine's runtime. Each call may fail, and is a point where the process may be
    killed.
    """

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine = machine
        self._runtime = machine.connect()
        self._process = process
        self._closed = False

    def close(self) -> None:
        """Close the client."""
        self._closed = True
        self._runtime.close()

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """Stream events, unless a fault prevents it (`ContainerRuntime.container_events`)."""
        self._check_open("container_events")
        if self._machine.no_events:
            raise UnavailableError("container_events", "", StatusCode.UNAVAILABLE, "simulated")
        self._runtime.container_events(opened, happened)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        carry_out = getattr(self._runtime, operation)
        call = partial(self._change if operation in _CHANGES else self._read, operation, carry_out)
        self.__dict__[operation] = call
        return call

    def _read(self, operation: str, carry_out: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._check_open(operation)
        if self._process.doomed:
            self._process.point()
        if self._machine.relist_fails and operation in _LISTS:
            raise UnavailableError(operation, "", StatusCode.UNAVAILABLE, "simulated")
        return carry_out(*args, **kwargs)

    def _change(self, operation: str, carry_out: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._check_open(operation)
        machine, process = self._machine, self._process
        draw = process.clock.random
        if operation == "stop_container":
            machine.record_stop(args[0])
        process.point()
        process.sleep(draw.uniform(0.002, 0.02) + machine.slow * draw.random())
        if machine.refuses and draw.random() < machine.refuses:
            raise _refusal(operation, draw.random())
        if operation == "pull_image" and machine.no_pulls:
            raise error_of(operation, args[0].image, StatusCode.UNKNOWN, "simulated: registry unreachable")
        loses = machine.loses and draw.random() < machine.loses
        machine.watch.before(operation, args)
        call = called(operation, args, machine.containers) if machine.traps else None
        machine.changed()
        try:
            result = carry_out(*args, **kwargs)
        finally:
            machine.changed()
        machine.watch.after(operation, args, result)
        for trap in [each for each in machine.traps if call == (each.call, each.pod)]:
            machine.traps.remove(trap)
            process.doom(1, trap.die)
        process.point()
        if loses:
            process.sleep(draw.uniform(0.5, 8.0))
            raise DeadlineExceededError(operation, "", StatusCode.DEADLINE_EXCEEDED, "simulated")
        self._check_open(operation)
        return result

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise ConnectionClosedError(operation, "", StatusCode.CANCELLED, "closed")


def _refusal(operation: str, draw: float) -> CriError:
    code = StatusCode.UNAVAILABLE if draw < 0.5 else StatusCode.UNKNOWN
    return error_of(operation, "", code, "simulated")


class SimulatedMachineInfo(MachineInfo):
    """Machine info that is the same on every host.

    Args:
        evictions: knows whether the memory is short.
    """

    def __init__(self, evictions: EvictionWatch) -> None:
        super().__init__()
        self._evictions = evictions

    def machine(self, root: Any, node_ip: str = "") -> MachineFigures:  # noqa: ARG002
        return MachineFigures(
            machine_id="0123456789abcdef",
            system_uuid="0123456789abcdef",
            boot_id="fedcba9876543210",
            kernel="6.1.0",
            os_image="Simulated",
            architecture="amd64",
            cpus=4,
            memory=4 * GIBIBYTE,
            storage=64 * GIBIBYTE,
            addresses=(node_ip or "192.0.2.2",),
        )

    def usage(self, root: Any, images: Any = None) -> MachineUsage:  # noqa: ARG002
        disk = FileSystem(32 * GIBIBYTE, 64 * GIBIBYTE, 2_000_000, 4_000_000)
        available = _LOW if self._evictions.low else 2 * GIBIBYTE
        return MachineUsage(available, 4 * GIBIBYTE, disk, None, 30_000, 32_000)
