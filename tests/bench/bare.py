"""The floor under pods: the calls that edged makes for a pod, made bare by a Python gRPC client.

The requests are edged's own: edged's `ContainerStarter` starts one pod, and its requests are sent again under other
names. They have no labels, so that an edged on the same runtime does not treat these pods as its own.
"""

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import grpc
import msgspec

from beehive import Threads
from beehive.clock import RealClock
from edged.cgroups.pod_cgroups import PodCgroups
from edged.cri.client import CriClient
from edged.devices.manager import DeviceManager
from edged.devices.pod_devices import Checkpoint
from edged.events import EventRecorder
from edged.events.pods import PodEvents
from edged.images.puller import ImagePuller
from edged.node.machine import read_machine
from edged.node.state import LocalNode
from edged.node.watch import pod_machine
from edged.pod_workers.image_manager import ImageManager
from edged.pod_workers.pod_directories import PodDirectories
from edged.pod_workers.pod_objects import PodObjects
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.service_account_tokens import TokenManager
from edged.pod_workers.start_containers import ContainerStarter, StartContext
from edged.pods.actions import compute_pod_actions
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.labels import ref_of
from edged.pods.model import PodFacts
from edged.settings import EdgedSettings
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.types import Nanoseconds, Pod, decode
from protos.cri.v1 import api_pb2 as cri
from tests.support.cri_calls import runtime_calls

_TIMEOUT = 60.0


class Requests(NamedTuple):
    """The CRI requests for one pod with one container."""

    sandbox: cri.PodSandboxConfig
    container: cri.ContainerConfig


class _Recorder(CriClient):
    """CRI client that keeps the last configurations."""

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
    """Start a pod with edged's code, return its CRI requests, and remove the pod.

    Args:
        manifest: of a pod without volumes, with one container.
        endpoint: of the runtime.
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
    files = PodDirectories(settings, clock)
    machine = pod_machine(read_machine(directory).memory)
    devices = DeviceManager(clock, directory / "devices", Checkpoint(), lambda: None)
    cgroups = PodCgroups(settings.cgroups, None, machine)
    tokens = TokenManager(clock)
    starter = ContainerStarter(
        settings,
        clock,
        client,
        ImageManager(client, ImagePuller(Threads(), client, settings.pulls, Mock()), events),
        PodResources(files, cgroups, devices, _NOTHING, tokens, machine),
        LocalNode(devices),
        events,
    )
    facts = PodFacts(ref_of(pod))
    actions = compute_pod_actions(pod, facts, Nanoseconds(clock.now_ns()), backoffs)
    sources = PodObjects(pod, _NOTHING, tokens)
    volumes = files.prepare(pod, sources)
    context = StartContext(starter.ensure_sandbox(pod, facts, actions), volumes, sources, facts)
    for start in actions.start:
        starter.start_container(pod, start, context)
    client.stop_pod_sandbox(context.sandbox.id)
    client.remove_pod_sandbox(context.sandbox.id)
    client.close()
    clock.close()
    return Requests(client.sandbox, client.container)


_NOTHING: Any = None
"""Stands for the metamanager client: the pod needs no object from it."""


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
        self._calls = runtime_calls(self._channel)
        self._template = template
        self._logs = Path(template.sandbox.log_directory).parent
        self._names = itertools.count()
        self._pods: list[tuple[str, str]] = []

    def up(self, number: int, workers: int) -> float:
        """Start pods with a number of threads; return the seconds until all of them run."""
        return _seconds([self._start] * number, workers)

    def down(self, grace: int) -> float:
        """Remove all pods together; return the seconds until the last one is removed."""
        pods, self._pods = self._pods, []
        return _seconds([partial(self._remove, sandbox, container, grace) for sandbox, container in pods], len(pods))

    def close(self) -> None:
        """Remove the remaining pods."""
        if self._pods:
            self.down(0)
        self._channel.close()

    def _start(self) -> None:
        sandbox, container = self._named(f"bare-{next(self._names)}")
        made = self._calls["RunPodSandbox"](cri.RunPodSandboxRequest(config=sandbox), timeout=_TIMEOUT).pod_sandbox_id
        request = cri.CreateContainerRequest(pod_sandbox_id=made, config=container, sandbox_config=sandbox)
        inmate = self._calls["CreateContainer"](request, timeout=_TIMEOUT).container_id
        self._calls["StartContainer"](cri.StartContainerRequest(container_id=inmate), timeout=_TIMEOUT)
        self._pods.append((made, inmate))

    def _remove(self, sandbox: str, container: str, grace: int) -> None:
        calls = self._calls
        calls["StopContainer"](cri.StopContainerRequest(container_id=container, timeout=grace), timeout=_TIMEOUT)
        calls["StopPodSandbox"](cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), timeout=_TIMEOUT)
        calls["RemoveContainer"](cri.RemoveContainerRequest(container_id=container), timeout=_TIMEOUT)
        calls["RemovePodSandbox"](cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), timeout=_TIMEOUT)

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
