"""The paths of the local server, and which of them are served where.

Those that only read are on the port, which asks for no credentials and therefore is on the loopback interface unless
somebody chose another address. Those that act in a container are on the socket of the node's owner.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from beehive import Clock, Hive
from edged.api import Pod, encode
from edged.server.answers import Answer, Handler, json, text
from edged.server.container_logs import ContainerLogs
from edged.server.healthz import Health
from edged.server.request import Request
from edged.server.router import Route
from edged.server.running import running_pods
from edged.server.snapshots import Snapshots
from edged.server.statistics import Statistics
from edged.server.streaming import METHODS, Streaming, StreamingSettings, attach_url, exec_url, port_forward_url

_DEBUGGING = ("/runningpods", "/containerLogs/{namespace}/{pod}/{container}", "/configz")
"""What a kubelet serves only with `enableDebuggingHandlers`."""


class PodList(msgspec.Struct):
    """v1.PodList as KubeEdge's edged serves it: with kind and version, which kubectl-like tools want."""

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
) -> list[Route]:
    """The routes that only read.

    Args:
        snapshots: what the modules have left.
        hive: says how the modules are.
        clock: the hive's.
        metrics: makes the Prometheus text.
        configuration: the kubelet's part of it, for `/configz`; without secrets.
        sync_period: seconds, `syncFrequency`.
        debugging: `enableDebuggingHandlers`; without it three of the paths say that they are switched off.
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
        "/stats/summary": statistics.summary,
        "/metrics": lambda _: Answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics()),
        "/configz": lambda _: json(encode({"kubeletconfig": configuration})),
        "/containerLogs/{namespace}/{pod}/{container}": ContainerLogs(snapshots, clock),
    }
    if not debugging:
        handlers |= dict.fromkeys(_DEBUGGING, switched_off)
    return [Route(pattern, handler) for pattern, handler in handlers.items()]


def acting_routes(
    snapshots: Snapshots, clock: Clock, settings: StreamingSettings, *, debugging: bool = True
) -> list[Route]:
    """The routes that act in containers."""
    streaming = Streaming(snapshots, clock, settings)
    container = "{namespace}/{pod}/{container}"
    handlers: dict[str, Handler] = {
        f"/exec/{container}": lambda request: streaming.serve(request, exec_url),
        f"/attach/{container}": lambda request: streaming.serve(request, attach_url),
        "/portForward/{namespace}/{pod}": lambda request: streaming.serve(request, port_forward_url),
        f"/run/{container}": streaming.run,
    }
    return [Route(pattern, handler if debugging else switched_off, METHODS) for pattern, handler in handlers.items()]


def switched_off(_request: Request) -> Answer:
    """The answer of what was disabled, as a kubelet's."""
    return text(405, "debug endpoints are disabled; enableDebuggingHandlers switches them on\n")


def _pod_list(pods: tuple[Pod, ...]) -> Answer:
    return json(encode(PodList(pods)))


def _running(snapshots: Snapshots) -> Answer:
    with snapshots.calling() as runtime:
        return _pod_list(running_pods(runtime.list_pod_sandboxes(), runtime.list_containers()))
