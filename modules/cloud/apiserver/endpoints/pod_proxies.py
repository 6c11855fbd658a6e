"""The subresource `proxy` of pods and services: HTTP to a port of a pod, through its node's tunnel.

What follows `proxy` in the path is the path for the pod. No address is dialled from here: the node connects to the port
within the pod, so that neither an object nor a pod can lead a request elsewhere. An endpoint of a Service counts only
if it names a pod of the Service's namespace.
"""

import secrets
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from beehive.http.request import Request
from beehive.http.responses import Reply, Response
from beehive.whole_numbers import whole_number
from modules.apimachinery.application import Target
from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError, no_such_path
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.objects import node_of
from modules.cloud.apiserver.endpoints.pod_streams import PROXY, Calls, scheme_name_port
from modules.cloud.client.calls import ApiCall

PODS: Final = "pods"
SERVICES: Final = "services"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_READS: Final = ("GET", "HEAD")
_NAMESPACED: Final = ("api", "v1", "namespaces")
_PARTS: Final = 7
"""Parts of a path up to `proxy`."""
_TCP: Final = "TCP"
_HTTP: Final = 80
_DEFAULT_PORTS: Final = {"https": 443}
_MOST_PORT: Final = 65_535


class PodPort(NamedTuple):
    """A port of a pod."""

    namespace: str
    pod: str
    port: int
    has_tls: bool
    """Whether it speaks HTTPS; its certificate is not verified, as kube-apiserver's proxy does not."""
    host: str
    """The pod's address, or its name while it has none, for the header `Host`."""


class ProxiedPath(NamedTuple):
    """The path of a request, in its two parts."""

    prefix: str
    """Up to `proxy`."""
    target: str
    """The rest, with the query, encoded as it came; it begins with a slash."""


class PodServers(Protocol):
    """The ports of pods."""

    def proxy(self, node: str, port: PodPort, path: ProxiedPath, request: Request) -> Reply:
        """Return the reply of a pod. Raise ApiStatusError without one."""


def is_proxied(parts: tuple[str, ...]) -> bool:
    """Return whether a path, in parts, is one of a pod's: its answers are the pod's own."""
    return parts[:3] == _NAMESPACED and parts[_PARTS - 1 : _PARTS] == (PROXY,) and parts[4] in (PODS, SERVICES)


def serve_proxy(request: Request, target: Target, caller: Calls, servers: PodServers) -> Reply:
    """Return the reply to a request for such a subresource.

    Raises:
        ApiStatusError: it is refused, or cannot be passed on.
    """
    if request.method not in METHODS:
        raise ApiStatusError(405, "the server does not allow this method on the requested resource")
    path = proxied_path(request, target)
    if not path.target.startswith("/"):
        if request.method in _READS:  # for links of the page that are relative to its own path
            return Response(301, "", b"", location=f"{path.prefix}/{path.target}")
        path = path._replace(target=f"/{path.target}")
    scheme, name, port = scheme_name_port(target.plural, target.name)
    if target.plural == PODS:
        pod = _object(caller, PODS, target.namespace, name)
        number = port_of_pod(pod, port, _DEFAULT_PORTS.get(scheme, _HTTP))
    else:
        service = _object(caller, SERVICES, target.namespace, name)
        name, number = _endpoint(caller, service, target.namespace, port)
        pod = _object(caller, PODS, target.namespace, name)
    node = node_of(pod)
    if not node:
        raise ApiStatusError(400, f"pod {name} does not have a host assigned")
    host = str(pod.get("status", {}).get("podIP") or name)
    return servers.proxy(node, PodPort(target.namespace, name, number, scheme == "https", host), path, request)


def proxied_path(request: Request, target: Target) -> ProxiedPath:
    """Return the path in its parts; a target that does not begin with a slash is a query alone, or nothing.

    Raises:
        ApiStatusError: 404; the path has another form.
    """
    wanted = (*_NAMESPACED, target.namespace, target.plural, target.name, PROXY)
    raw, question, query = request.target.lstrip("/").partition("?")
    parts = raw.split("/", _PARTS)
    if request.parts[:_PARTS] != wanted or len(parts) < _PARTS:
        raise no_such_path()
    prefix = "/" + "/".join(parts[:_PARTS])
    return ProxiedPath(prefix, (f"/{parts[_PARTS]}" if len(parts) > _PARTS else "") + question + query)


def port_of_pod(pod: JsonObject, wanted: str, default: int) -> int:
    """Return the number of a pod's port: the wanted one, or the first one of its containers, or else the default.
    Unlike kube-apiserver's, this takes the name of a port, too.

    Raises:
        ApiStatusError: 400; it has no such port.
    """
    if wanted.isdecimal():
        return _checked(wanted)
    for port in _ports_of(pod):
        if not wanted or port.get("name") == wanted:
            return _checked(port.get("containerPort"))
    if wanted:
        raise ApiStatusError(400, f'pod {pod["metadata"]["name"]} has no port "{wanted}"')
    return default


def _ports_of(pod: JsonObject) -> Iterator[JsonObject]:
    for container in pod.get("spec", {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("protocol", _TCP) == _TCP:
                yield port


def _checked(port: Any) -> int:
    number = whole_number(str(port))
    if number is None or not 0 < number <= _MOST_PORT:
        raise ApiStatusError(400, f'"{str(port)[:20]}" is no port')
    return number


def name_of_port(service: JsonObject, wanted: str) -> str:
    """Return the name of a service's port, which its endpoints have.

    Raises:
        ApiStatusError: 503; it has no port with the number.
    """
    if not wanted.isdecimal():
        return wanted
    for port in service.get("spec", {}).get("ports") or ():
        if str(port.get("port")) == wanted:
            return str(port.get("name") or "")
    raise ApiStatusError(503, f'no service port {wanted} found for service "{service["metadata"]["name"]}"')


def _endpoint(caller: Calls, service: JsonObject, namespace: str, wanted: str) -> tuple[str, int]:
    """Return the pod and the port of one of a service's ready endpoints."""
    name = service["metadata"]["name"]
    port = name_of_port(service, wanted)
    asked = ApiCall(
        verb="list", api_version="discovery.k8s.io/v1", plural="endpointslices", namespace=namespace,
        options={"labelSelector": f"{SERVICE_NAME}={name}"},
    )  # fmt: skip
    result = caller.call(asked)
    if result.object is None:
        raise CloudRefusalError(result.refusal or {})
    found = [each for slice_ in result.object["items"] for each in ready_pods(slice_, port, namespace)]
    if not found:
        raise ApiStatusError(503, f'no endpoints available for service "{name}"')
    return secrets.choice(found)


def ready_pods(slice_: JsonObject, name: str, namespace: str) -> Iterator[tuple[str, int]]:
    """Yield the pods of an EndpointSlice's ready endpoints, each with the number of the port with this name."""
    numbers = [
        number
        for port in slice_.get("ports") or ()
        if (port.get("name") or "") == name
        and (port.get("protocol") or _TCP) == _TCP
        and isinstance(number := port.get("port"), int)
        and 0 < number <= _MOST_PORT
    ]
    for endpoint in slice_.get("endpoints") or () if numbers else ():
        of = endpoint.get("targetRef") or {}
        is_ready = (endpoint.get("conditions") or {}).get("ready") is not False
        if is_ready and of.get("kind") == "Pod" and of.get("namespace", namespace) == namespace and of.get("name"):
            yield str(of["name"]), numbers[0]


def _object(caller: Calls, plural: str, namespace: str, name: str) -> JsonObject:
    result = caller.call(ApiCall(verb="get", api_version="v1", plural=plural, namespace=namespace, name=name))
    if result.object is None:
        raise CloudRefusalError(result.refusal or {})
    return result.object
