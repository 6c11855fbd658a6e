"""Subresources that only a node can serve: `log`, `exec`, `attach` and `portforward` of its pods, and `proxy` of the
node (that of pods and services is in `pod_proxies`).

Requests are refused as by kube-apiserver. The others are passed on to the node with the path and query of a kubelet.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from beehive.http.request import Request
from beehive.http.responses import Reply, text
from beehive.printable import clipped
from modules.apimachinery.application import Target
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError
from modules.apimachinery.go_json import uint16_error
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.log_options import InvalidLogOptionsError, LogOptionError, log_options
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.types import Nanoseconds
from modules.cloud.client.calls import ApiCall, ApiResult

_log = logging.getLogger(__name__)

LOG: Final = "log"
STREAMS: Final = (LOG, "exec", "attach", "portforward")
"""The subresources."""
_OF_NODE: Final = (
    ("metrics",), ("metrics", "cadvisor"), ("metrics", "probes"), ("metrics", "resource"), ("pods",), ("runningpods",),
    ("stats", "summary"),
)  # fmt: skip
"""The paths of a node's server, in parts, that are served for the node and not for a pod."""
_CHAINS: Final = ("edgecore", "chains")
"""The path of a pod's steps on its node: these parts, its namespace and its name."""
PROXY: Final = "proxy"
"""The subresource of nodes, pods and services."""
_SCHEMES: Final = ("", "http", "https")
_KUBELET_PORT: Final = "10250"
"""The port that clients expect a kubelet's server at."""
_READS: Final = ("GET", "HEAD")
_BEGINS: Final = ("GET", "POST")
_PATHS: Final = {LOG: "containerLogs", "exec": "exec", "attach": "attach", "portforward": "portForward"}
_FLAGS: Final = ("follow", "previous", "timestamps", "redact")
"""The last one is of edgecore: without secrets."""
_VALUES: Final = ("sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream")
_CONNECTED: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Names of an API's query, and a kubelet's."""
_LONGEST_NAME: Final = 100
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


class NodeReplies(Protocol):
    """The replies of nodes' servers to requests."""

    def reply(self, node: str, target: str, request: Request) -> Reply:
        """Return the reply of a node's server to a path and query. Raise ApiStatusError without one."""


class NodeServer(NodeReplies, Protocol):
    """The servers of nodes."""

    def gather(self, nodes: Iterable[str], target: str, took: Callable[[str, bytes], object]) -> list[str]:
        """Ask nodes for a path, pass each answer to `took`, and return the nodes that have not answered in time. Raise
        ApiStatusError when no node can be asked.
        """


class Calls(Protocol):
    """A maker of API calls."""

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response. Raise ApiStatusError without one."""


def is_read_of_node(path: tuple[str, ...]) -> bool:
    """Return whether a path of a node's server, in parts, is served for the node and not for a pod."""
    return path in _OF_NODE or (len(path) == len(_CHAINS) + 2 and path[: len(_CHAINS)] == _CHAINS)


def is_stream(target: Target) -> bool:
    """Return whether a target is one of a node's."""
    subresource, _, rest = target.subresource.partition("/")
    if target.group or not target.name:
        return False
    if target.plural == "nodes":
        return subresource == PROXY
    return target.plural == "pods" and subresource in STREAMS and not rest


def serve_stream(request: Request, target: Target, caller: Calls, nodes: NodeReplies, user: str) -> Reply:
    """Return the reply to a request for such a subresource. The log names the user who asks for another one than `log`.

    Raises:
        ApiStatusError: it is refused, or cannot be passed on.
    """
    if target.plural == "nodes":
        return _serve_node(request, target, caller, nodes)
    methods = _READS if target.subresource == LOG else _BEGINS
    if request.method not in methods:
        raise ApiStatusError(405, "the server does not allow this method on the requested resource")
    if target.subresource == LOG:
        _check_options(request, target)
    if target.subresource == "portforward":
        _check_ports(request)
    result = caller.call(ApiCall(verb="get", api_version="v1", plural="pods",
                                 namespace=target.namespace, name=target.name))  # fmt: skip
    if result.object is None:
        raise CloudRefusalError(result.refusal or {})
    pod = result.object
    path = ["", _PATHS[target.subresource], target.namespace, target.name]
    if target.subresource != "portforward":
        path.append(container_of(pod, request.first("container")))
    node = node_of(pod)
    if not node and target.subresource == LOG:
        return text(200, "")
    if not node:
        raise ApiStatusError(400, f"pod {target.name} does not have a host assigned")
    if target.subresource != LOG:
        who, agent = (clipped(each, _LONGEST_NAME) for each in (user, request.header("user-agent")))
        _log.info("%s (%s) asks node %s for %s", who, agent, node, " ".join((target.subresource, *path[2:])))
    query = _query(request, target.subresource)
    return nodes.reply(node, "/".join(quote(part, "") for part in path) + (f"?{query}" if query else ""), request)


def scheme_name_port(plural: str, name: str) -> tuple[str, str, str]:
    """Return the scheme, the name and the port in the name of a proxied node, pod or service, which is `NAME`,
    `NAME:PORT` or `SCHEME:NAME:PORT` (kube-apiserver's `SplitSchemeNamePort`); "" for a part without a value.

    Raises:
        ApiStatusError: 400; the name has another form.
    """
    parts = name.split(":")
    if len(parts) == 1:
        parts = ["", *parts, ""]
    elif len(parts) == 2:
        parts = ["", *parts]
    if len(parts) != len(_SCHEMES) or parts[0] not in _SCHEMES or not parts[1]:
        raise ApiStatusError(400, f'invalid {plural.removesuffix("s")} request "{name}"')
    return parts[0], parts[1], parts[2]


def _serve_node(request: Request, target: Target, caller: Calls, nodes: NodeReplies) -> Reply:
    path = tuple(target.subresource.split("/")[1:])
    if not is_read_of_node(path):
        served = ", ".join("/".join(each) for each in (*_OF_NODE, (*_CHAINS, "NAMESPACE", "POD")))
        raise ApiStatusError(404, f"of a node's server only these paths are served: {served}")
    if request.method not in _READS:
        raise ApiStatusError(405, "the server does not allow this method on the requested resource")
    _, node, port = scheme_name_port(target.plural, target.name)
    if port not in ("", _KUBELET_PORT) and port != str(_port_of(caller, node)):
        raise ApiStatusError(400, f"of a node only its server is reached, port {_KUBELET_PORT}")
    return nodes.reply(node, "/" + "/".join(quote(part, "") for part in path), request)


def _port_of(caller: Calls, node: str) -> object:
    """Return the port of a node's server in the node's status. Raise ApiStatusError if there is no such node."""
    result = caller.call(ApiCall(verb="get", api_version="v1", plural="nodes", name=node))
    if result.object is None:
        raise CloudRefusalError(result.refusal or {})
    endpoint: JsonObject = result.object.get("status", {}).get("daemonEndpoints", {}).get("kubeletEndpoint", {})
    return endpoint.get("Port")


def container_of(pod: JsonObject, wanted: str) -> str:
    """Return the container of a request: the named or the only one.

    Raises:
        ApiStatusError: 400; it names no container of several, or an unknown one.
    """
    name = pod["metadata"]["name"]
    spec: dict[str, Any] = pod.get("spec", {})
    containers, initial, ephemeral = ([one.get("name", "") for one in spec.get(each) or ()] for each in _LISTS)
    if wanted:
        if wanted not in (*containers, *initial, *ephemeral):
            raise ApiStatusError(400, f"container {wanted[:253]} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    choice = f", choose one of: [{' '.join(containers)}]" if containers else ""
    if initial:
        choice += f" or one of the init containers: [{' '.join(initial)}]"
    raise ApiStatusError(400, f"a container name must be specified for pod {name}{choice}")


def _query(request: Request, subresource: str) -> str:
    """Return the query for the node's server."""
    if subresource == LOG:
        flags = [(name, "true") for name in _FLAGS if request.flag(name)]
        return urlencode([*flags, *((name, request.first(name)) for name in _VALUES if request.first(name))])
    if subresource == "portforward":
        return urlencode([("port", value) for value in request.all("ports")])
    words = [("command", word) for word in request.all("command")] if subresource == "exec" else []
    dropped = "stderr" if request.flag("tty") else ""
    wanted = [(name, "1") for own, name in _CONNECTED.items() if request.flag(own) and own != dropped]
    return urlencode([*words, *wanted])


def _check_ports(request: Request) -> None:
    """Raise ApiStatusError, 400, if a port to forward is none; several may be in one field."""
    for port in ",".join(request.all("ports")).split(",") if request.all("ports") else ():
        if why := uint16_error(port):
            raise ApiStatusError(400, f"cannot convert to []int32: {why}")


def _check_options(request: Request, target: Target) -> None:
    """Raise ApiStatusError, 400 if an option of a log cannot be read, and 422 if it is not valid."""
    try:
        log_options(request, Nanoseconds(0))
    except LogOptionError as error:
        raise ApiStatusError(400, error.why) from error
    except InvalidLogOptionsError as error:
        raise ApiStatusError(422, f'PodLogOptions "{target.name}" is invalid: {error.why}') from error
