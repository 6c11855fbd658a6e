"""The API server of a cluster, in memory and in virtual time, and edgecontroller as its client."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from beehive.clock import Clock
from beehive.runtime import Runtime
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, Kind, kind_called, version_of
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.client.http.kube_api import HttpKubeApi
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.coordination.lease_settings import NAMESPACE, LeaseSettings
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.database import Database
from tests.modules.cloud.edgecontroller.controller import Controller, check_turn_is_over

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
DISCOVERY = "discovery"
"""Verb of a request for the resources of a version."""
_GONE = {"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410}


def call_of(request: ApiRequest) -> tuple[ApiCall, dict[str, str]]:
    """The API call of a request, and its query."""
    url = urlsplit(request.path)
    parts = url.path.split("/")[2:]
    api_version, rest = ("v1", parts[1:]) if url.path.startswith("/api/") else ("/".join(parts[:2]), parts[2:])
    if not rest:
        return ApiCall(verb=DISCOVERY, api_version=api_version, plural=""), {}
    namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else ("", rest)
    plural, name, subresource = (*rest, "", "")[:3]
    verb, query = _VERBS[request.method], dict(parse_qsl(url.query))
    verb = verb if name else {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    body = json.loads(request.body) if request.body else None
    headers = dict(request.headers)
    call = ApiCall(
        verb=verb,
        api_version=api_version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        patch_type=headers.get("Content-Type", "") if verb == "patch" else "",
        options=(body or {}) if verb == "delete" else {},
        body=None if verb == "delete" else body,
    )
    return call, query


class FakeExchange:
    """A request that the server has got.

    Args:
        server: the server.
        request: the request.
        listener: takes the response.
    """

    def __init__(self, server: "ClusterServer", request: ApiRequest, listener: ResponseListener) -> None:
        self.request = request
        self._server = server
        self._listener = listener
        self.call, self.query = call_of(request)
        self.is_cancelled = False

    def cancel(self) -> None:
        """Takes the client's loss of interest."""
        self.is_cancelled = True
        self._server.forget(self)

    def pause(self) -> None:
        """Does nothing: all that is sent is read."""

    def resume(self) -> None:
        """Does nothing."""

    def head(self, status: int = 200, *headers: tuple[str, str]) -> None:
        """Sends the beginning."""
        if not self.is_cancelled:
            self._listener.on_head(ResponseHead(status, headers))

    def data(self, data: bytes) -> None:
        """Sends a piece."""
        if not self.is_cancelled:
            self._listener.on_data(data)

    def answer(self, status: int, content: Any, *headers: tuple[str, str]) -> None:
        """Sends a whole response."""
        self.head(status, *headers)
        self.data(content if isinstance(content, bytes) else json.dumps(content).encode())
        if not self.is_cancelled:
            self._listener.on_end()

    def break_off(self) -> None:
        """Loses the connection."""
        if not self.is_cancelled:
            self._listener.on_error(OSError("the connection was closed"))

    def tell(self, type_: str, obj: JsonObject) -> None:
        """Sends a change, if the watch selects the object."""
        kind = self._server.cluster.storage.kinds.at(self.call.api_version, self.call.plural)
        is_selected = obj["kind"] == kind.name and (kind.name != "Pod" or obj["spec"].get("nodeName"))
        if is_selected and int(version_of(obj)) > int(self.query["resourceVersion"]):
            self.data(json.dumps({"type": type_, "object": obj}).encode() + b"\n")


class ClusterServer:
    """A transport to an API server whose objects are an embedded one's.

    Args:
        clock: of the simulation; a response takes no time, but does not come before the request has been sent.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.cluster = Cluster(clock)
        self.requests: list[ApiCall] = []
        """All requests except lists and watches."""
        self.lists: list[tuple[str, dict[str, str]]] = []
        """The plural and the query of each list."""
        self.answers: dict[str, Callable[[FakeExchange], None]] = {}
        """By plural, how a request is answered in place of the usual way."""
        self.held: list[FakeExchange] = []
        """Requests of `answers` that wait."""
        self.closed = 0
        self.impersonated: list[str] = []
        self._watches: list[FakeExchange] = []
        self._log: list[tuple[str, JsonObject]] = []

    def connect(self, _: Runtime) -> HttpKubeApi:
        """Return a client."""
        return HttpKubeApi(self)

    def start(self, request: ApiRequest, listener: ResponseListener) -> FakeExchange:
        """Takes a request, and answers it soon."""
        exchange = FakeExchange(self, request, listener)
        self.impersonated += [value for name, value in request.headers if name == "Impersonate-User"]
        if exchange.call.verb == "list" and not request.stream:
            self.lists.append((exchange.call.plural, exchange.query))
        elif not request.stream:
            self.requests.append(exchange.call)
        self._clock.after(0.0, lambda: self._serve(exchange))
        return exchange

    def close(self) -> None:
        """Ends all exchanges."""
        self.closed += 1
        self._watches.clear()

    def forget(self, exchange: FakeExchange) -> None:
        """Takes that nobody waits for a response any more."""
        self._watches = [each for each in self._watches if each is not exchange]

    def hold(self, plural: str) -> None:
        """Answers no request for a resource."""
        self.answers[plural] = self.held.append

    def stop_watches(self) -> None:
        """Tells of no change any more, as when the mirror is behind."""
        self._watches.clear()

    def hold_watches(self) -> list[FakeExchange]:
        """Tells the watches of no change until `go_on`, and returns them."""
        held, self._watches = self._watches, []
        return held

    def go_on(self, watches: list[FakeExchange]) -> None:
        """Tells watches what has changed since they began."""
        for watch in watches:
            for type_, obj in self._log:
                watch.tell(type_, obj)
        self._watches = watches

    def expire(self, watches: list[FakeExchange]) -> None:
        """Ends held watches, as it no longer knows what has changed since they began: all is listed again."""
        self._log.clear()
        for watch in watches:
            watch.data(json.dumps({"type": "ERROR", "object": _GONE}).encode() + b"\n")
            watch.break_off()

    def release(self) -> None:
        """Answers what was held."""
        self.answers.clear()
        held, self.held = self.held, []
        for exchange in held:
            self._serve(exchange)

    def call(self, call: ApiCall) -> ApiResult:
        """Carries out a call, and tells watches what has changed."""
        result = api_calls.serve(self.cluster, call)
        for event in self.cluster.storage.drain_events():
            self._log.append((event.type.value, event.new))
            for watch in list(self._watches):
                watch.tell(event.type.value, event.new)
        return result

    def apply(self, *documents: JsonObject) -> None:
        """Writes objects as kubectl does."""
        for document in documents:
            kind = self.cluster.storage.kinds.of_object(document)
            meta = document["metadata"]
            result = self.call(self.call_for("patch", kind, meta["name"], patch_type=APPLY, body=document))
            assert result.refusal is None, result.refusal

    def remove(self, word: str, name: str) -> None:
        """Deletes an object immediately."""
        custom = (one.kind for (_, plural), one in self.cluster.storage.kinds.custom().items() if plural == word)
        kind = next(custom, None) or kind_called(word)
        self.call(self.call_for("delete", kind, name, options={"gracePeriodSeconds": 0}))

    def call_for(self, verb: str, kind: Kind, name: str, **fields: Any) -> ApiCall:
        """A call for an object in the namespace `default`."""
        place = "default" if kind.namespaced else ""
        return ApiCall(
            verb=verb, api_version=kind.api_version, plural=kind.plural, namespace=place, name=name, **fields
        )

    def objects(self) -> list[JsonObject]:
        """A backup."""
        storage = self.cluster.storage
        return [obj for key in storage if (obj := storage.find(key)) is not None]

    def restore(self, objects: list[JsonObject]) -> None:
        """Restarts with a backup: connections break, and versions go back."""
        self.cluster = Cluster(self._clock)
        self.cluster.storage.restore(objects)
        self._log.clear()
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.break_off()

    def _serve(self, exchange: FakeExchange) -> None:
        if exchange.is_cancelled:
            return
        special = self.answers.get(exchange.call.plural)
        if special is not None:
            special(exchange)
        elif exchange.request.stream:
            self._watch(exchange)
        else:
            self._answer(exchange)

    def _discover(self, exchange: FakeExchange) -> None:
        version = exchange.call.api_version
        found = [one.kind for one in self.cluster.storage.kinds.custom().values() if one.kind.api_version == version]
        resources = [
            {"name": kind.plural, "kind": kind.name, "namespaced": kind.namespaced, "verbs": ["get", "list", "watch"]}
            for kind in found
        ]
        status = {"kind": "Status", "code": 404, "message": "the server could not find the requested resource"}
        exchange.answer(200 if found else 404, {"resources": resources} if found else status)

    def _watch(self, exchange: FakeExchange) -> None:
        if int(exchange.query["resourceVersion"]) > self.cluster.storage.version:
            exchange.answer(410, _GONE)
            return
        exchange.head()
        for type_, obj in self._log:
            exchange.tell(type_, obj)
        self._watches.append(exchange)

    def _answer(self, exchange: FakeExchange) -> None:
        if exchange.call.verb == DISCOVERY:
            self._discover(exchange)
            return
        result = self.call(exchange.call)
        if result.object is None:
            assert result.refusal is not None
            exchange.answer(result.refusal["code"], {"kind": "Status", **result.refusal})
            return
        content = dict(result.object)
        if exchange.query.get("fieldSelector") == "spec.nodeName!=":
            content["items"] = [one for one in content["items"] if one["spec"].get("nodeName")]
        exchange.answer(201 if result.created else 200, content)


class ClusterController(Controller):
    """edgecontroller with a cluster, and what a test does to both.

    Args:
        bee: the harness.
        server: the API server; None for a new one.
        database: of ObjectSyncs; None for one in memory.
        nodes: nodes that connect immediately.
        keeps_state: whether what nodes have acknowledged is kept in the cluster.
        lease: of this cloudcore.
        namespace: of NodeStates.
    """

    def __init__(
        self,
        bee: Harness,
        server: ClusterServer | None = None,
        database: Database | None = None,
        nodes: tuple[str, ...] = ("n1",),
        *,
        keeps_state: bool = False,
        lease: LeaseSettings | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        self.bee = bee
        self.server = server or ClusterServer(bee.clock)
        self.remote = RemoteCluster(self.server.connect, keeps_state, namespace)
        self.database = database or Database(IN_MEMORY, "cloudcore", stores_objects=False)
        bee.add(EdgeController, self.remote, self.database, None, lease, None, NodeWatches())
        bee.checks_at_rest.append(partial(check_turn_is_over, bee, EdgeController.name))
        bee.start()
        self.links = 0
        for each in nodes:
            self.connected(each)

    def applied(self, *documents: JsonObject, seconds: float = 0.0) -> None:
        """Somebody writes objects to the cluster, and time passes."""
        self.server.apply(*documents)
        self.pass_time(seconds)

    def removed(self, word: str, name: str, seconds: float = 0.0) -> None:
        """Somebody deletes an object of the cluster, and time passes."""
        self.server.remove(word, name)
        self.pass_time(seconds)


def code(result: ApiResult) -> int:
    """The status of a refusal, or 0."""
    return int((result.refusal or {}).get("code", 0))
