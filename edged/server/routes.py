"""The paths of the local server.

Paths that only read are served on the port, which asks for no credentials and therefore listens on the loopback
interface by default. Paths that act in a container are served on the socket, which only the node's owner can open.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from beehive import Clock, Hive
from beehive.http.request import Request
from beehive.http.responses import Handler, Response, json, text
from beehive.http.router import HttpRoute
from edged.pods.labels import ref_from_labels
from edged.pods.model import PodRef
from edged.server.container_logs import ContainerLogs
from edged.server.healthz import Health
from edged.server.probe_metrics import ProbeMetrics
from edged.server.snapshots import Snapshots
from edged.server.statistics import Statistics
from edged.server.streaming import METHODS, StreamingHandlers, StreamingSettings, attach_url, exec_url, port_forward_url
from modules.apimachinery.types import Container, ObjectMeta, Pod, encode
from modules.apimachinery.types.pods import PodSpec
from protos.cri.v1 import api_pb2 as cri


def running_pods(sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> tuple[Pod, ...]:
    """Return the pods with a ready sandbox or a running container (kubelet's GetPods without dead ones)."""
    found: dict[PodRef, list[Container]] = {}
    for sandbox in sandboxes:
        ref = ref_from_labels(sandbox.labels)
        if ref is not None and sandbox.state == cri.SANDBOX_READY:
            found.setdefault(ref, [])
    for container in containers:
        ref = ref_from_labels(container.labels)
        if ref is not None and container.state == cri.CONTAINER_RUNNING:
            made = Container(name=container.metadata.name, image=container.image.image)
            found.setdefault(ref, []).append(made)
    return tuple(_pod(ref, found[ref]) for ref in sorted(found, key=lambda ref: (ref.namespace, ref.name, ref.uid)))


def _pod(ref: PodRef, containers: list[Container]) -> Pod:
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace, uid=ref.uid)
    return Pod(metadata=metadata, spec=PodSpec(containers=tuple(sorted(containers, key=lambda each: each.name))))


_DEBUGGING = ("/runningpods", "/containerLogs/{namespace}/{pod}/{container}", "/configz")
"""Paths that a kubelet serves only with `enableDebuggingHandlers`."""


class TypedPodList(msgspec.Struct):
    """v1.PodList with kind and version, as KubeEdge's edged serves it; tools like kubectl need them."""

    items: tuple[Pod, ...]
    kind: str = "PodList"
    apiVersion: str = "v1"  # noqa: N815 - a key of the wire


def reading_routes(
    snapshots: Snapshots,
    hive: Hive,
    clock: Clock,
    *,
    metrics: Callable[[], bytes],
    configuration: Mapping[str, Any],
    sync_period: float,
    debugging: bool = True,
) -> list[HttpRoute]:
    """Return the routes that only read.

    Args:
        snapshots: pods, node status, statistics and the runtime.
        hive: its modules' readiness is served.
        clock: the hive's.
        metrics: returns the Prometheus text.
        configuration: the kubelet's part of the configuration, for `/configz`; without secrets.
        sync_period: seconds, `syncFrequency`.
        debugging: `enableDebuggingHandlers`; without it three of the paths are answered with 405.
    """
    statistics = Statistics(snapshots)
    health = Health(snapshots, hive, clock, sync_period)
    handlers: dict[str, Handler] = {
        "/pods": lambda _: _pod_list(snapshots.pods),
        "/runningpods": lambda _: _running(snapshots),
        "/healthz": health.everything,
        "/healthz/ping": health.ping,
        "/healthz/syncloop": health.sync_loop,
        "/metrics/resource": statistics.resources,
        "/metrics/cadvisor": statistics.containers,
        "/metrics/probes": ProbeMetrics(snapshots),
        "/stats/summary": statistics.summary,
        "/metrics": lambda _: Response(200, "text/plain; version=0.0.4; charset=utf-8", metrics()),
        "/configz": lambda _: json(encode({"kubeletconfig": configuration})),
        "/containerLogs/{namespace}/{pod}/{container}": ContainerLogs(snapshots, clock),
    }
    if not debugging:
        handlers |= dict.fromkeys(_DEBUGGING, switched_off)
    return [HttpRoute(pattern, handler) for pattern, handler in handlers.items()]


def acting_routes(
    snapshots: Snapshots, clock: Clock, settings: StreamingSettings, *, debugging: bool = True
) -> list[HttpRoute]:
    """Return the routes that act in containers."""
    streaming = StreamingHandlers(snapshots, clock, settings)
    handlers: dict[str, Handler] = {}
    for pod in ("{namespace}/{pod}", "{namespace}/{pod}/{uid}"):
        handlers |= {
            f"/exec/{pod}/{{container}}": lambda request: streaming.serve(request, exec_url),
            f"/attach/{pod}/{{container}}": lambda request: streaming.serve(request, attach_url),
            f"/portForward/{pod}": lambda request: streaming.serve(request, port_forward_url),
            f"/run/{pod}/{{container}}": streaming.run,
        }
    return [
        HttpRoute(pattern, handler if debugging else switched_off, METHODS) for pattern, handler in handlers.items()
    ]


def switched_off(_request: Request) -> Response:
    """Answer a path that is disabled, as a kubelet does."""
    return text(405, "debug endpoints are disabled; enableDebuggingHandlers switches them on\n")


def _pod_list(pods: tuple[Pod, ...]) -> Response:
    return json(encode(TypedPodList(pods)))


def _running(snapshots: Snapshots) -> Response:
    with snapshots.calling() as runtime:
        return _pod_list(running_pods(runtime.list_pod_sandboxes(), runtime.list_containers()))
