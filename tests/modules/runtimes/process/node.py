"""A node with the process runtime, spoken to over gRPC, for the tests of this directory."""

import json
import os
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message_factory import GetMessageClass

from beehive.clock import RealClock
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.process.driver import ProcessSettings
from protos.cri.v1 import api_pb2 as cri
from tests.support.directories import short_directory

DEADLINE_SECONDS = 60.0
_LOOK_SECONDS = 0.01

Seen = TypeVar("Seen")


class Stub:
    """The methods of a service of CRI as attributes; the generated stub's types do not hold for mypy --strict."""

    def __init__(self, channel: grpc.Channel, service: str = "RuntimeService") -> None:
        self._channel = channel
        self._service = cri.DESCRIPTOR.services_by_name[service]

    def __getattr__(self, name: str) -> Any:
        method = self._service.methods_by_name[name]
        make = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        return make(
            f"/{self._service.full_name}/{name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )


class Node:
    """Client of a runtime at `directory`; pods made in few words."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.socket = directory / "cri.sock"
        self.logs = directory / "logs"
        self.clock = RealClock()
        self._channel: grpc.Channel | None = None
        self._pods = 0

    def connect(self) -> None:
        """Talk to the runtime that serves now."""
        self.disconnect()
        self._channel = grpc.insecure_channel(f"unix://{self.socket}", [("grpc.use_local_subchannel_pool", 1)])
        self.cri = Stub(self._channel)
        self.images = Stub(self._channel, "ImageService")

    def disconnect(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def purge(self) -> None:
        """Remove everything that the runtime has made."""
        purge(self.state, self.clock, ProcessSettings())

    def pod(self, name: str = "") -> str:
        """A sandbox that runs."""
        self._pods += 1
        name = name or f"pod-{self._pods}"
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default"),
            hostname=f"host-of-{name}",
            log_directory=str(self.logs / name),
            labels={"app": name},
            annotations={"kept": "as it is"},
        )
        self.complete_pod(config)
        return str(self.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)

    def complete_pod(self, config: cri.PodSandboxConfig) -> None:
        """Add what this kind of runtime needs in a sandbox's configuration."""

    def complete(self, config: cri.ContainerConfig) -> None:
        """Add what this kind of runtime needs in a container's configuration."""

    def create(self, command: Sequence[str], config: cri.ContainerConfig | None = None, pod: str = "") -> str:
        """A container in a pod of its own (or in `pod`), not started."""
        asked = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image="busybox"),
            command=command,
            labels={"kind": "test"},
            annotations={"kept": "too"},
            log_path="main.log",
        )
        self.complete(asked)
        if config is not None:
            asked.MergeFrom(config)
        request = cri.CreateContainerRequest(pod_sandbox_id=pod or self.pod(), config=asked)
        return str(self.cri.CreateContainer(request).container_id)

    def start(self, container: str) -> str:
        """Start a created container."""
        self.cri.StartContainer(cri.StartContainerRequest(container_id=container))
        return container

    def shell(self, script: str, config: cri.ContainerConfig | None = None, pod: str = "") -> str:
        """A container that was started with this script."""
        return self.start(self.create(["sh", "-c", script], config, pod))

    def status(self, container: str) -> cri.ContainerStatus:
        """Return the container's status from the runtime."""
        answer: cri.ContainerStatusResponse = self.cri.ContainerStatus(
            cri.ContainerStatusRequest(container_id=container)
        )
        return answer.status

    def pid(self, container: str) -> int:
        """The process id of its main process."""
        request = cri.ContainerStatusRequest(container_id=container, verbose=True)
        return int(json.loads(self.cri.ContainerStatus(request).info["info"])["pid"])

    def ended(self, container: str) -> cri.ContainerStatus:
        """Return the container's status from the runtime once it has ended."""
        return eventually(lambda: self.status(container), lambda status: status.state == cri.CONTAINER_EXITED)

    def run(self, script: str, config: cri.ContainerConfig | None = None) -> str:
        """Return the standard output of the script, which must end well."""
        container = self.shell(script, config)
        status = self.ended(container)
        assert status.exit_code == 0, (status, self.log(container))
        return "".join(f"{text}\n" for stream, _, text in self.log(container) if stream == "stdout")

    def execute(self, container: str, *command: str, timeout: int = 120) -> cri.ExecSyncResponse:
        """Run a command in a container."""
        request = cri.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout)
        answer: cri.ExecSyncResponse = self.cri.ExecSync(request)
        return answer

    def stop(self, container: str, grace_seconds: int = 10) -> None:
        """Stop a container."""
        self.cri.StopContainer(cri.StopContainerRequest(container_id=container, timeout=grace_seconds))

    def states(self) -> dict[str, int]:
        """Every container with its state."""
        listed = self.cri.ListContainers(cri.ListContainersRequest()).containers
        return {container.id: container.state for container in listed}

    def log(self, container: str) -> list[tuple[str, str, str]]:
        """Stream, tag and text of each entry of a container's log."""
        lines = Path(self.status(container).log_path).read_text().splitlines()
        return [(stream, tag, text) for _, stream, tag, text in (line.split(" ", 3) for line in lines)]

    def logged(self, container: str, text: str) -> None:
        """Wait until the container has printed this line."""
        eventually(lambda: [entry[2] for entry in self.log(container)], lambda lines: text in lines)


class LocalNode(Node):
    """A node whose runtime is in this process. Use as a context manager; nothing is left after it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.runtime = self.new_runtime()

    def new_runtime(self) -> CriServer:
        """Return a runtime on the node's directory, not started."""
        return CriServer(self.state, self.socket, self.clock, ProcessSettings())

    def restart(self) -> None:
        """Stop the runtime and start another on the same directory; containers go on."""
        self.disconnect()
        self.runtime.stop()
        self.runtime = self.new_runtime()
        self.runtime.start()
        self.connect()

    def __enter__(self) -> Self:
        self.runtime.start()
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()
        self.runtime.stop()
        self.purge()
        self.clock.close()


@contextmanager
def node_directory() -> Iterator[Path]:
    """A directory with a short path (sockets) that every user may pass through; no process and no mount outlives it."""
    with short_directory("em-", mode=0o755) as path:
        yield path
        assert processes_of(path) == []
        assert str(path) not in Path("/proc/self/mountinfo").read_text()


def processes_of(directory: Path) -> list[str]:
    """The living processes whose environment or command line names `directory`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(directory) in environment + command:
                found.append(os.fsdecode(command))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_death(pid: int) -> None:
    """Wait until a process that need not be a child has died."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], DEADLINE_SECONDS)[0], f"process {pid} does not die"
    finally:
        os.close(descriptor)


def eventually(observe: Callable[[], Seen], until: Callable[[Seen], bool] = bool) -> Seen:
    """Return the first value of `observe` that satisfies `until`; fail with the last value after the deadline."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS / _LOOK_SECONDS)):
        if until(seen := observe()):
            return seen
        pause.wait(_LOOK_SECONDS)
    raise AssertionError(f"not what was waited for within {DEADLINE_SECONDS} s: {seen!r}")
