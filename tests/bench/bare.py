"""The floor under pods: the calls that edged makes for a pod, made bare by a Python gRPC client.

The requests are edged's own: one pod is started through edged's `Starter`, and what it asked of the runtime is played
again under other names, without anything between. Labels are left out, so that an edged that looks at the same runtime
does not take these pods for its own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import msgspec

from beehive import Threads
from beehive.clock import RealClock
from edged.api import Nanoseconds, Pod, decode
from edged.cgroups.pods import PodCgroups
from edged.cri import CriClient
from edged.devices.ledger import Checkpoint
from edged.devices.manager import DeviceManager
from edged.events import EventRecorder
from edged.events.pods import PodEvents
from edged.images.pulls import Pulls
from edged.node.limits import pod_machine
from edged.node.machine import read_machine
from edged.pods.actions import compute_pod_actions
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.labels import ref_of
from edged.pods.model import PodFacts
from edged.settings import EdgedSettings
from edged.work.files import PodFiles
from edged.work.images import ImageKeeper
from edged.work.sources import PodSources, TokenCache
from edged.work.starter import StartContext, Starter
from protos.cri.v1 import api_pb2 as cri
from protos.cri.v1.api_pb2_grpc import RuntimeServiceStub

if TYPE_CHECKING:
    from modules.edgecontroller.kinds import JsonObject

_TIMEOUT = 60.0


class Requests(NamedTuple):
    """What a runtime is asked for one pod of one container."""

    sandbox: cri.PodSandboxConfig
    container: cri.ContainerConfig


class _Recorder(CriClient):
    """The real client, which keeps the last configurations."""

    sandbox: cri.PodSandboxConfig
    container: cri.ContainerConfig

    def run_pod_sandbox(self, config: cri.PodSandboxConfig, runtime_handler: str = "") -> Any:
        self.sandbox = config
        return super().run_pod_sandbox(config, runtime_handler)

    def create_container(
        self, sandbox_id: Any, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> Any:
        self.container = config
        return super().create_container(sandbox_id, config, sandbox_config)


def requests_of(manifest: JsonObject, endpoint: str, directory: Path) -> Requests:
    """Start the pod as edged does, without the rest of edged, give what it asked for, and remove the pod.

    Args:
        manifest: of a pod without volumes, with one container.
        endpoint: the runtime's.
        directory: for the pod's files, which the configuration names.
    """
    pod = decode(Pod, msgspec.json.encode(manifest))
    clock = RealClock()
    client = _Recorder(endpoint)
    settings = EdgedSettings(
        node_name="", root=directory / "kubelet", pod_logs=directory / "logs", runtime_endpoint=endpoint,
    )  # fmt: skip
    backoffs = BackOffs(BackOffPolicy())
    events = PodEvents(EventRecorder(clock, "", lambda _occurrence: None))
    files = PodFiles(settings, clock)
    machine = pod_machine(read_machine(directory).memory)
    starter = Starter(
        settings,
        clock,
        client,
        files=files,
        images=ImageKeeper(client, Pulls(Threads(), client, settings.pulls, lambda _uid: None), backoffs, events),
        machine=machine,
        cgroups=PodCgroups(settings.cgroups, None, machine),
        host_ips=lambda: (),
        allocatable=dict,
        owner="",
        events=events,
        devices=DeviceManager(clock, directory / "devices", Checkpoint(), lambda: None),
    )
    facts = PodFacts(ref_of(pod))
    actions = compute_pod_actions(pod, facts, Nanoseconds(clock.now_ns()), backoffs)
    sources = PodSources(pod, _NOTHING, TokenCache(clock))
    volumes = files.prepare(pod, sources)
    context = StartContext(starter.sandbox(pod, facts, actions), volumes, sources, facts)
    for start in actions.start:
        starter.start(pod, start, context)
    client.stop_pod_sandbox(context.sandbox.id)
    client.remove_pod_sandbox(context.sandbox.id)
    client.close()
    clock.close()
    return Requests(client.sandbox, client.container)


_NOTHING: Any = None
"""The pod has nothing that would be asked of metamanager."""


class BareRuntime:
    """Starts and removes pods by the bare calls.

    Args:
        endpoint: the runtime's.
        template: the requests to be made, but for the names.
    """

    def __init__(self, endpoint: str, template: Requests) -> None:
        self._channel = grpc.insecure_channel(
            f"unix:{endpoint.removeprefix('unix://')}", options=(("grpc.default_authority", "localhost"),)
        )
        self._stub: Any = RuntimeServiceStub(self._channel)
        self._template = template
        self._logs = Path(template.sandbox.log_directory).parent
        self._names = itertools.count()
        self._pods: list[tuple[str, str]] = []

    def up(self, number: int, workers: int) -> float:
        """Seconds until so many more pods run, made by so many threads."""
        return _seconds([self._start] * number, workers)

    def down(self, grace: int) -> float:
        """Seconds until all are gone, all at once."""
        pods, self._pods = self._pods, []
        return _seconds([partial(self._remove, sandbox, container, grace) for sandbox, container in pods], len(pods))

    def close(self) -> None:
        """Remove what is left."""
        if self._pods:
            self.down(0)
        self._channel.close()

    def _start(self) -> None:
        sandbox, container = self._named(f"bare-{next(self._names)}")
        made = self._stub.RunPodSandbox(cri.RunPodSandboxRequest(config=sandbox), timeout=_TIMEOUT).pod_sandbox_id
        request = cri.CreateContainerRequest(pod_sandbox_id=made, config=container, sandbox_config=sandbox)
        inmate = self._stub.CreateContainer(request, timeout=_TIMEOUT).container_id
        self._stub.StartContainer(cri.StartContainerRequest(container_id=inmate), timeout=_TIMEOUT)
        self._pods.append((made, inmate))

    def _remove(self, sandbox: str, container: str, grace: int) -> None:
        stub = self._stub
        stub.StopContainer(cri.StopContainerRequest(container_id=container, timeout=grace), timeout=_TIMEOUT)
        stub.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), timeout=_TIMEOUT)
        stub.RemoveContainer(cri.RemoveContainerRequest(container_id=container), timeout=_TIMEOUT)
        stub.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), timeout=_TIMEOUT)

    def _named(self, name: str) -> Requests:
        sandbox, container = cri.PodSandboxConfig(), cri.ContainerConfig()
        sandbox.CopyFrom(self._template.sandbox)
        container.CopyFrom(self._template.container)
        sandbox.metadata.name = sandbox.metadata.uid = name
        sandbox.log_directory = str(self._logs / name)
        (self._logs / name).mkdir(parents=True, exist_ok=True)
        sandbox.ClearField("labels")
        container.ClearField("labels")
        return Requests(sandbox, container)


def _seconds(calls: list[Callable[[], None]], workers: int) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(workers) as threads:
        for done in [threads.submit(call) for call in calls]:
            done.result()
    return time.perf_counter() - begin
