"""Probes and lifecycle hooks of a container."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct

IntOrString = int | str
"""A port by number or by name, as on the wire."""


class ExecAction(KubeStruct, frozen=True):
    """A command run inside the container."""

    command: tuple[str, ...] = ()


class HTTPHeader(KubeStruct, frozen=True):
    """A header of an HTTP probe."""

    name: str = field(default_factory=str)
    value: str = field(default_factory=str)


class HTTPGetAction(KubeStruct, frozen=True):
    """An HTTP GET; any status from 200 to 399 is a success."""

    path: str = ""
    port: IntOrString = field(default_factory=int)
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(KubeStruct, frozen=True):
    """A TCP connection; opening it is a success."""

    port: IntOrString = field(default_factory=int)
    host: str = ""


class GRPCAction(KubeStruct, frozen=True):
    """A call of the standard gRPC health service."""

    port: int = field(default_factory=int)
    service: str | None = None


class Probe(KubeStruct, frozen=True):
    """A health check and its timing in seconds; zero stands for Kubernetes' default (period 10, time-out 1, …)."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    failure_threshold: int = 0
    termination_grace_period_seconds: int | None = None


class SleepAction(KubeStruct, frozen=True):
    """A pause in seconds."""

    seconds: int = field(default_factory=int)


class LifecycleHandler(KubeStruct, frozen=True):
    """One hook: exactly one action is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(KubeStruct, frozen=True):
    """Hooks after a container's start and before its stop."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None
