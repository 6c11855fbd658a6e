"""`metrics.k8s.io`: what `kubectl top` reads, as metrics-server serves it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from beehive.http.request import Request
from beehive.http.responses import Response, json
from modules.apimachinery.application import Target
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError, no_such_path
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.resources import Resource
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.endpoints.node_usage import MetricsPoint, NodeUsage, UsageReader
from modules.cloud.apiserver.endpoints.pod_streams import Calls, NodeServer
from modules.cloud.client.calls import ApiCall

GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_VERBS: Final = ("get", "list")
_TEXT: Final = {"type": "string"}
_USAGE: Final = {"usage": {"type": "object", "properties": {"cpu": _TEXT, "memory": _TEXT}}}
_CONTAINER: Final = {"type": "object", "properties": {"name": _TEXT, **_USAGE}}
_MEASURED: Final = {"timestamp": _TEXT, "window": _TEXT}


def _schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**_MEASURED, **properties}}


_NODES: Final = Resource(
    "NodeMetrics", "nodes", "nodemetrics", GROUP, _VERSION, namespaced=False, verbs=_VERBS, schema=_schema(**_USAGE)
)
_PODS: Final = Resource(
    "PodMetrics", "pods", "podmetrics", GROUP, _VERSION, verbs=_VERBS,
    schema=_schema(containers={"type": "array", "items": _CONTAINER}),
)  # fmt: skip
METRICS: Final = (_NODES, _PODS)
"""The resources of the group."""
_SELECTORS: Final = ("labelSelector", "fieldSelector")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


class ResourceMetrics:
    """The service of NodeMetrics and PodMetrics, on the threads of an HTTP server. A node that does not answer is left
    out. Of its answer, only the figures of its own pods and their containers count.

    Args:
        caller: reads nodes and pods.
        nodes: asks their servers.
        clock: the time.
    """

    def __init__(self, caller: Calls, nodes: NodeServer, clock: Clock) -> None:
        self._caller = caller
        self._usage = UsageReader(nodes, clock)

    def serve(self, request: Request, target: Target) -> Response:
        """Return the reply.

        Raises:
            ApiStatusError: the request is refused, or no node can be asked.
        """
        resource = next((one for one in METRICS if one.plural == target.plural), None)
        if resource is None or target.version != _VERSION or target.subresource:
            raise no_such_path()
        if resource is _NODES and target.namespace:
            raise no_such_path()
        if request.method not in ("GET", "HEAD") or request.flag("watch"):
            raise ApiStatusError(405, f"{resource.plural}.{GROUP} are measured when asked for: only get and list")
        objects = self._objects(request, target)
        found = [*(self._of_nodes(objects) if resource is _NODES else self._of_pods(objects))]
        if not target.name:
            meta = {"kind": f"{resource.kind}List", "apiVersion": resource.group_version, "metadata": {}}
            return json(msgspec.json.encode({**meta, "items": found}))
        if not found:
            raise _unmeasured(resource, target)
        return json(msgspec.json.encode(found[0]))

    def _objects(self, request: Request, target: Target) -> list[JsonObject]:
        """Return the nodes or pods that are asked for."""
        options = {name: text for name in _SELECTORS if (text := request.first(name))}
        call = ApiCall(
            verb="get" if target.name else "list", api_version="v1", plural=target.plural, namespace=target.namespace,
            name=target.name, options={} if target.name else options,
        )  # fmt: skip
        result = self._caller.call(call)
        if result.refusal is not None or result.object is None:
            raise CloudRefusalError(result.refusal or {})
        return [result.object] if target.name else list(result.object["items"])

    def _of_nodes(self, nodes: Iterable[JsonObject]) -> Iterator[JsonObject]:
        by_name = {str(each["metadata"]["name"]): each for each in nodes}
        for name, read in self._usage.read(by_name).items():
            if read.node is not None:
                yield {**_head(_NODES, by_name[name], read), "usage": _quantities(read.node)}

    def _of_pods(self, pods: Iterable[JsonObject]) -> Iterator[JsonObject]:
        bound = [(str(node), pod) for pod in pods if (node := pod.get("spec", {}).get("nodeName"))]
        usage = self._usage.read(node for node, _ in bound)
        for node, pod in bound:
            read, meta = usage.get(node), pod["metadata"]
            measured = read.pods.get((meta["namespace"], meta["name"], meta["uid"])) if read is not None else None
            if read is None or measured is None:
                continue
            names = [name for name in _names(pod) if name in measured]
            containers = [{"name": name, "usage": _quantities(measured[name])} for name in names]
            if containers:
                yield {**_head(_PODS, pod, read), "containers": containers}


def _head(resource: Resource, obj: JsonObject, read: NodeUsage) -> JsonObject:
    at, known = format_rfc3339(read.at), obj["metadata"]
    meta: dict[str, Any] = {"name": known["name"], "creationTimestamp": at}
    meta |= {name: known[name] for name in ("namespace", "labels") if known.get(name)}
    head = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": meta}
    return {**head, "timestamp": at, "window": f"{read.window:.3f}s"}


def _names(pod: JsonObject) -> list[str]:
    return [str(one.get("name")) for field in _CONTAINERS for one in pod["spec"].get(field) or ()]


def _quantities(usage: MetricsPoint) -> dict[str, str]:
    return {"cpu": f"{usage.nano_cores}n", "memory": f"{usage.bytes // 1024}Ki"}


def _unmeasured(resource: Resource, target: Target) -> ApiStatusError:
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    details = {"name": name, "group": GROUP, "kind": resource.token}
    return ApiStatusError(404, f'{resource.token}.{GROUP} "{name}" not found', details)
