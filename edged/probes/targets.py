"""Targets of probes and lifecycle hooks: ports looked up, hosts filled in, variables expanded. Pure."""

import msgspec

from beehive.whole_numbers import whole_number
from edged.errors import TargetError, TooLargeError
from edged.pods.config.expansion import expand_all
from modules.apimachinery.types import Container, Pod
from modules.apimachinery.types.probes import ExecAction, HTTPGetAction, IntOrString, Probe, TCPSocketAction

PROBE_AGENT = "kube-probe/1.32"
"""`User-Agent` of probes (kubelet's), which lets servers leave them out of logs and redirects."""
_DIGITS = 5
"""Digits of the largest port."""
HOOK_AGENT = "kube-lifecycle/1.32"
"""`User-Agent` of lifecycle hooks."""


class ExecTarget(msgspec.Struct, frozen=True):
    """A command to run in the container."""

    command: tuple[str, ...]


class HttpTarget(msgspec.Struct, frozen=True):
    """A GET request. `Host` and `Connection` are added to `headers` when it is sent."""

    scheme: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    is_guarded: bool = False
    """Whether the pod chose a host that it may not reach itself: this machine's own addresses are not asked."""


class TcpTarget(msgspec.Struct, frozen=True):
    """A TCP connection to open."""

    host: str
    port: int
    is_guarded: bool = False
    """As of an `HttpTarget`."""


class GrpcTarget(msgspec.Struct, frozen=True):
    """A health service to call (grpc.health.v1); `service` is "" for the whole server."""

    host: str
    port: int
    service: str = ""


Target = ExecTarget | HttpTarget | TcpTarget | GrpcTarget


class PodAddress(msgspec.Struct, frozen=True):
    """Where a pod is reached."""

    ip: str
    """"" while it has none."""
    is_of_machine: bool = False
    """Whether the pod is on the machine's network, where it reaches all that edgecore reaches."""


def pod_address(pod: Pod, ip: str = "") -> PodAddress:
    """Return where a pod is reached.

    Args:
        pod: the pod, with its status.
        ip: its address, if that is newer than the status.
    """
    ip = ip or pod.status.pod_ip
    return PodAddress(ip, pod.spec.host_network or (bool(ip) and ip == pod.status.host_ip))


def probe_target(probe: Probe, container: Container, pod: PodAddress) -> Target:
    """Return the target of a probe. Raise TargetError."""
    if probe.exec is not None:
        return exec_target(probe.exec, container)
    if probe.http_get is not None:
        return http_target(probe.http_get, container, pod, PROBE_AGENT)
    if probe.tcp_socket is not None:
        return tcp_target(probe.tcp_socket, container, pod)
    if probe.grpc is not None:
        host = _host("", container, pod)
        return GrpcTarget(host, port_number(probe.grpc.port, container), probe.grpc.service or "")
    raise TargetError(f"container {container.name}", "its probe has none of exec, httpGet, tcpSocket and grpc")


def exec_target(action: ExecAction, container: Container) -> ExecTarget:
    """Return the command; variables with a literal value are expanded (kubelet's ExpandContainerCommandOnlyStatic).

    Raises:
        TargetError: the expanded command is too large.
    """
    static = {variable.name: variable.value for variable in container.env if variable.value_from is None}
    try:
        return ExecTarget(expand_all(action.command, static))
    except TooLargeError as error:
        raise TargetError(f"container {container.name}", error.hint) from None


def http_target(action: HTTPGetAction, container: Container, pod: PodAddress, agent: str) -> HttpTarget:
    """Return the request (kubelet's NewRequestForHTTPGetAction). Raise TargetError."""
    headers = [(header.name, header.value) for header in action.http_headers]
    if any(_breaks_a_line(text) for pair in headers for text in pair):
        raise TargetError(f"container {container.name}", "a line break in httpHeaders")
    return HttpTarget(
        scheme=action.scheme.lower() or "http",
        host=_host(action.host, container, pod),
        port=port_number(action.port, container),
        path=action.path,
        headers=_with_defaults(headers, agent),
        is_guarded=_is_guarded(action.host, pod),
    )


def tcp_target(action: TCPSocketAction, container: Container, pod: PodAddress) -> TcpTarget:
    """Return the connection. Raise TargetError."""
    host, port = _host(action.host, container, pod), port_number(action.port, container)
    return TcpTarget(host, port, _is_guarded(action.host, pod))


def port_number(port: IntOrString, container: Container) -> int:
    """Return a port given as a number, as a name of the container's ports, or as digits (ResolveContainerPort).

    Raises:
        TargetError: the container has no such port, or the number is no port.
    """
    number = port
    if isinstance(port, str):
        named = (each.container_port for each in container.ports if each.name == port)
        number = next(named, whole_number(port, _DIGITS) or 0)
    if isinstance(number, int) and 0 < number < 65536:
        return number
    raise TargetError(f"container {container.name}", f"it has no port {port!r}")


def _is_guarded(stated: str, pod: PodAddress) -> bool:
    return stated not in ("", pod.ip) and not pod.is_of_machine


def _host(stated: str, container: Container, pod: PodAddress) -> str:
    host = stated or pod.ip
    if not host:
        raise TargetError(f"container {container.name}", "its pod has no address yet")
    return host


def _with_defaults(headers: list[tuple[str, str]], agent: str) -> tuple[tuple[str, str], ...]:
    """Return the headers with a kubelet's defaults. An empty `Accept` takes the header out of the request."""
    given = {name.lower(): value for name, value in headers}
    if "accept" not in given:
        headers = [*headers, ("Accept", "*/*")]
    elif not given["accept"]:
        headers = [pair for pair in headers if pair[0].lower() != "accept"]
    if "user-agent" not in given:
        headers = [("User-Agent", agent), *headers]
    return tuple(headers)


def _breaks_a_line(text: str) -> bool:
    return any(each in text for each in "\r\n\0")
