"""What exactly is asked of a container: ports looked up, hosts filled in, variables expanded. Pure.

Probes and lifecycle hooks share it, as they share these types in the API.
"""

from typing import NamedTuple

from edged.api import Container
from edged.api.probes import ExecAction, HTTPGetAction, IntOrString, Probe, TCPSocketAction
from edged.pods.errors import TooLargeError
from edged.pods.expansion import expand_all
from edged.probes.errors import TargetError

PROBE_AGENT = "kube-probe/1.32"
"""`User-Agent` of probes: servers know it and keep it out of their logs and redirects (kubelet's)."""
_DIGITS = 5
"""Of the largest port."""
HOOK_AGENT = "kube-lifecycle/1.32"
"""`User-Agent` of lifecycle hooks."""


class ExecTarget(NamedTuple):
    """A command to run in the container."""

    command: tuple[str, ...]


class HttpTarget(NamedTuple):
    """A GET. `headers` are complete but for `Host` and `Connection`, which come from the rest."""

    scheme: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()


class TcpTarget(NamedTuple):
    """A connection to open."""

    host: str
    port: int


class GrpcTarget(NamedTuple):
    """A health service to ask (grpc.health.v1); `service` is "" for the server as a whole."""

    host: str
    port: int
    service: str = ""


Target = ExecTarget | HttpTarget | TcpTarget | GrpcTarget


def probe_target(probe: Probe, container: Container, pod_ip: str) -> Target:
    """What a probe asks. Raises TargetError."""
    if probe.exec is not None:
        return exec_target(probe.exec, container)
    if probe.http_get is not None:
        return http_target(probe.http_get, container, pod_ip, PROBE_AGENT)
    if probe.tcp_socket is not None:
        return tcp_target(probe.tcp_socket, container, pod_ip)
    if probe.grpc is not None:
        host = _host("", container, pod_ip)
        return GrpcTarget(host, port_number(probe.grpc.port, container), probe.grpc.service or "")
    raise TargetError(f"container {container.name}", "its probe has none of exec, httpGet, tcpSocket and grpc")


def exec_target(action: ExecAction, container: Container) -> ExecTarget:
    """The command, with `$(NAME)` of those variables that the pod states as values: others are not known here
    (kubelet's ExpandContainerCommandOnlyStatic). Raises TargetError when it gets larger than a command can be.
    """
    static = {variable.name: variable.value for variable in container.env if variable.value_from is None}
    try:
        return ExecTarget(expand_all(action.command, static))
    except TooLargeError as error:
        raise TargetError(f"container {container.name}", error.hint) from None


def http_target(action: HTTPGetAction, container: Container, pod_ip: str, agent: str) -> HttpTarget:
    """The request (kubelet's NewRequestForHTTPGetAction). Raises TargetError."""
    headers = [(header.name, header.value) for header in action.http_headers]
    if any(_breaks_a_line(text) for pair in headers for text in pair):
        raise TargetError(f"container {container.name}", "a line break in httpHeaders")
    return HttpTarget(
        scheme=action.scheme.lower() or "http",
        host=_host(action.host, container, pod_ip),
        port=port_number(action.port, container),
        path=action.path,
        headers=_with_defaults(headers, agent),
    )


def tcp_target(action: TCPSocketAction, container: Container, pod_ip: str) -> TcpTarget:
    """The connection. Raises TargetError."""
    return TcpTarget(_host(action.host, container, pod_ip), port_number(action.port, container))


def port_number(port: IntOrString, container: Container) -> int:
    """A port by number, by the name that the container gives it, or by a number as text (ResolveContainerPort).

    Raises:
        TargetError: no port of that name, or no number of a port.
    """
    number = port
    if isinstance(port, str):
        named = (each.container_port for each in container.ports if each.name == port)
        number = next(named, int(port) if port.isascii() and port.isdigit() and len(port) <= _DIGITS else 0)
    if isinstance(number, int) and 0 < number < 65536:
        return number
    raise TargetError(f"container {container.name}", f"it has no port {port!r}")


def _host(wanted: str, container: Container, pod_ip: str) -> str:
    host = wanted or pod_ip
    if not host:
        raise TargetError(f"container {container.name}", "its pod has no address yet")
    return host


def _with_defaults(headers: list[tuple[str, str]], agent: str) -> tuple[tuple[str, str], ...]:
    """An empty `Accept` takes the header out of the request."""
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
