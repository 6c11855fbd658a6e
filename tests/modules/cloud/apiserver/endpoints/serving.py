"""The Kubernetes API as a service, on a cluster alone, without sockets and actors."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from beehive.clock import Clock
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream
from beehive.simulation import Simulation
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.authorization.subject_reviews import Authenticate
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.watch_history import WatchHistory, WatchQuery, WatchStart
from tests.beehive.http.requests import parse

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


class Watcher:
    """A client of a watch: does something before each wait, and goes when there is nothing left to do."""

    def __init__(self, *acts: Any) -> None:
        self._acts = list(acts)

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Acts; whether nothing was left to do."""
        assert seconds >= 0
        assert wake is not None
        if not self._acts:
            return True
        self._acts.pop(0)()
        return False


def on_one_node(clock: Clock) -> Cluster:
    """Return a cluster with one node for all pods."""
    return Cluster(clock, Scheduling("n1"))


def not_asked(call: ApiCall) -> ApiResult:
    """Answers the reviews of nodes in a test that has none."""
    raise AssertionError(f"{call.plural} is asked for")


class Tokens(NamedTuple):
    """The tokens of a test; there are no documents about them."""

    authenticate: Authenticate

    def document(self, _parts: tuple[str, ...]) -> None:
        """Return None."""


class Serving:
    """The service and what a test asks of it."""

    def __init__(
        self, authenticate: Authenticate | None = None, make_cluster: Callable[[Clock], Cluster] = on_one_node
    ) -> None:
        self.simulation = Simulation(0)
        self.cluster = make_cluster(self.simulation.clock)
        self.history = WatchHistory(self.cluster.storage)
        self.subscriptions = Subscriptions()
        self.calls: list[ApiCall] = []
        """What has been called."""
        version, clock = "v1.32.10-edgecore", self.simulation.clock
        tokens = None if authenticate is None else Tokens(authenticate)
        self.service = ApiService(Requester(self), self.subscriptions, version, clock, tokens=tokens)

    def call(self, call: ApiCall) -> ApiResult:
        """Carries out a call, as edgecontroller does; a dry run only answers."""
        self.calls.append(call)
        try:
            return serve(self.cluster, call)
        except DryRunError as end:
            return end.result
        finally:
            self.noted()

    def noted(self) -> None:
        """Passes changes to history and watches."""
        for event in self.cluster.storage.drain_events():
            self.subscriptions.publish(self.history.record(event))

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Begins a watch."""
        return self.history.start(query)

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json", accept: str = "",
            **query: str) -> Response:  # fmt: skip
        """The response to a request."""
        reply = self.reply(method, path, body, media, accept, **query)
        assert isinstance(reply, Response)
        return reply

    def watch(self, path: str, watcher: Watcher, **query: str) -> list[tuple[str, Any]]:
        """The events of a watch, with the names of their objects."""
        reply = self.reply("GET", path, watch="true", **query)
        assert isinstance(reply, Stream), reply
        lines = b"".join(reply.pieces(watcher)).splitlines()
        reply.done()
        events = [json.loads(line) for line in lines]
        return [(event["type"], event["object"]["metadata"].get("name")) for event in events]

    def reply(
        self, method: str, path: str, body: Any = None, media: str = "application/json", accept: str = "", **query: str
    ) -> Reply:
        """The reply to a request."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n"
        head += f"Accept: {accept}\r\n" if accept else ""
        return self.service.serve(read(head.encode() + b"\r\n" + data))


def read(text: bytes) -> Request:
    """Return the request of its text."""
    return parse(text, 1 << 22)
