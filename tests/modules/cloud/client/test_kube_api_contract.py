"""The contract of `KubeApi`, kept over HTTP and within the process: the same API server behind both."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from beehive.clock import RealClock
from beehive.hive import Hive
from beehive.http.http_server import HttpServer
from beehive.runtime import Threads
from modules.apimachinery.kinds import Kind, kind_named
from modules.cloud.apiserver import embedded_kube_api
from modules.cloud.apiserver.access.service import AccessService, NodeCaller
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.endpoints.service import ApiService, CustomResourceList, Requester
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.http import kube_api
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.http.kube_api import HttpKubeApi
from modules.cloud.client.kube_api import ApiReading, CallResponse, KubeApi
from modules.cloud.client.kubeconfig.model import ClusterEntry, Selected, UserEntry
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ListPage,
    Observation,
    ObservedEvent,
    ObservedObject,
    ReadRefusal,
    WatchEnded,
)
from modules.cloud.client.reflector.selection import ListRequest, Selection, WatchRequest
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devices import DEVICE_MODEL
from modules.cloud.refusals import Refusals
from tests.modules.cloud.objects import configmap, in_memory, node, pod
from tests.support.patience import PATIENCE
from tests.support.presence import present

Json = dict[str, Any]


class Api:
    """A client of an API server."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api

    def call(self, verb: str, kind: str = "ConfigMap", name: str = "", **fields: Any) -> CallResponse:
        """Make a call, and wait for its response."""
        ends: queue.Queue[CallResponse | Exception] = queue.Queue()
        served = kind_named(kind)
        place = "default" if served.namespaced else ""
        call = ApiCall(
            verb=verb, api_version=served.api_version, plural=served.plural, namespace=place, name=name, **fields
        )
        self.api.call(call, ends.put)
        self.api.send()
        end = ends.get(timeout=PATIENCE)
        assert isinstance(end, CallResponse), end
        return end

    def create(self, obj: Json) -> Json:
        """Create an object."""
        return present(self.call("create", obj["kind"], body=obj).result.object)

    def read(self, request: ListRequest | WatchRequest) -> Told:
        """Begin to read."""
        return Told(self.api, request)


class Told:
    """What is read."""

    def __init__(self, api: KubeApi, request: ListRequest | WatchRequest) -> None:
        self._woken: queue.Queue[None] = queue.Queue()
        self._found: list[Observation] = []
        self.reading: ApiReading = api.read(request, lambda: self._woken.put(None))

    def next(self) -> Observation:
        """The next observation but bookmarks."""
        while True:
            while not self._found:
                self._woken.get(timeout=PATIENCE)
                self._found += self.reading.receive()
            found = self._found.pop(0)
            if not isinstance(found, Bookmark):
                return found

    def event(self) -> tuple[str, str]:
        """The type and the object's name of the next event."""
        found = self.next()
        assert isinstance(found, ObservedEvent), found
        assert found.object is not None
        return found.type, found.object.name


class Both:
    """An API server on a bus, and its two clients."""

    def __init__(self) -> None:
        self.clock = RealClock()
        self.runtime = Threads(self.clock)
        self.hive = Hive(self.runtime)
        self.embedded = EmbeddedKubeApi(self.hive, self.clock)
        parts = Cluster(self.clock), in_memory(), None, Refusals(self.clock), self.embedded.subscriptions
        self.hive.add(ApiServer, *parts, control_plane=ControlPlane(definitions=definitions()))
        self.hive.start()
        caller = ModuleCaller(self.hive, self.clock)

        def service(name: str) -> ApiService:
            by = NodeCaller(caller, name) if name else caller
            return ApiService(
                Requester(by),
                self.embedded.subscriptions,
                "v1.32.10",
                self.clock,
                definitions=CustomResourceList(caller),
            )

        class Administrator:
            def user(self, _request: object) -> User:
                return User("admin", groups=(ADMINISTRATORS,))

        access = AccessService(Administrator(), service(""), service, caller.call)
        self.server = HttpServer(socket.create_server(("127.0.0.1", 0)), access, self.clock, max_body=1024 * 1024)
        self.server.start()
        entry = ClusterEntry(server=f"http://127.0.0.1:{self.server.port}")
        selected = Selected(where="test", cluster=entry, user=UserEntry())
        self.http = HttpKubeApi(http_transport(selected, self.runtime, "cloudcore/1"))

    def close(self) -> None:
        self.http.close()
        self.embedded.close()
        self.hive.stop()
        self.server.stop()
        self.runtime.close()
        self.clock.close()


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


@pytest.fixture(params=["http", "embedded"])
def api(request: pytest.FixtureRequest, both: Both) -> Api:
    """Each client."""
    return Api(both.http if request.param == "http" else both.embedded)


def _selection(kind: Kind | None = None, **fields: str) -> Selection:
    return Selection(kind=kind or kind_named("ConfigMap"), **fields)


def _page(told: Told) -> ListPage:
    page = told.next()
    assert isinstance(page, ListPage), page
    return page


def test_calls_have_results_and_refusals(api: Api) -> None:
    """With the statuses of HTTP; a call with a node has the node's rights."""
    made = api.call("create", body=configmap("one", a="1"))
    assert (made.status, made.result.created) == (201, True)
    assert present(api.call("get", name="one").result.object)["data"] == {"a": "1"}
    refused = api.call("get", name="other")
    assert (refused.status, (refused.result.refusal or {}).get("reason")) == (404, "NotFound")
    assert api.call("get", name="one", node="n1").status == 403
    assert api.call("delete", name="one").status == 200


def test_a_list_comes_in_pages(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """All objects are at the version of the first page; a selector counts; each has the fields that it was stored
    with.
    """
    for made in (kube_api, embedded_kube_api):
        monkeypatch.setattr(made, "PAGE_OBJECTS", 5)
    for number in range(7):
        api.create({**configmap(), "metadata": {"name": f"c{number}", "labels": {"l": "x"}}})
    api.create(configmap("other"))
    selection = _selection(namespace="default", label_selector="l=x")
    first = _page(api.read(ListRequest(selection)))
    assert (len(first.objects), bool(first.token)) == (5, True)
    second = _page(api.read(ListRequest(selection, first.token)))
    assert ([each.name for each in second.objects], second.token) == (["c5", "c6"], "")
    assert first.resource_version == second.resource_version
    known = first.objects[0]
    obj = known.read()
    assert (obj["kind"], obj["apiVersion"], obj["metadata"]["uid"]) == ("ConfigMap", "v1", known.uid)
    assert (known.namespace, known.resource_version) == ("default", obj["metadata"]["resourceVersion"])


def test_a_watch_reports_each_change_that_its_selection_has(api: Api) -> None:
    """An object that enters or leaves the selection is added or deleted for this watch."""
    selection = _selection(kind_named("Pod"), field_selector="spec.nodeName!=")
    version = _page(api.read(ListRequest(selection))).resource_version
    told = api.read(WatchRequest(selection, version, 300))
    api.create({**configmap("ignored")})
    waiting = pod("web")
    del waiting["spec"]["nodeName"]
    api.create(waiting)
    api.create({"apiVersion": "v1", "kind": "Node", **node("n1")})
    assert told.event() == ("ADDED", "web")
    api.call("delete", "Pod", "web", options={"gracePeriodSeconds": 0})
    events = [told.event()]
    while events[-1][0] != "DELETED":
        events.append(told.event())
    assert set(events[:-1]) <= {("MODIFIED", "web")}
    told.reading.cancel()


def test_a_watch_begins_at_a_version(api: Api) -> None:
    """With the changes after it, also those before it was begun; not at a version that was never given."""
    selection = _selection()
    version = _page(api.read(ListRequest(selection))).resource_version
    one = api.create(configmap("one"))
    told = api.read(WatchRequest(selection, version, 300))
    assert told.event() == ("ADDED", "one")
    api.create(configmap("two"))
    assert told.event() == ("ADDED", "two")
    later = api.read(WatchRequest(selection, one["metadata"]["resourceVersion"], 300))
    assert later.event() == ("ADDED", "two")
    future = api.read(WatchRequest(selection, "99999999999", 300)).next()
    assert getattr(future, "status", 0) or getattr(future, "code", 0) == 410


def test_a_kind_that_is_not_served_is_refused(api: Api) -> None:
    """As in a cluster where the kind is not defined; a kind that is defined later is served."""
    unknown = Kind("Cake", "kitchen.example/v1", "cakes", is_custom=True)
    refusal = api.read(ListRequest(_selection(unknown))).next()
    assert isinstance(refusal, ReadRefusal)
    assert refusal.status == 404
    assert _page(api.read(ListRequest(_selection(DEVICE_MODEL)))).objects == []


def test_the_end_of_the_api_server_ends_its_watches(api: Api, both: Both) -> None:
    """A client begins another watch, and misses nothing."""
    told = api.read(WatchRequest(_selection(), _page(api.read(ListRequest(_selection()))).resource_version, 300))
    api.create(configmap("one"))
    assert told.event() == ("ADDED", "one")
    both.embedded.subscriptions.end_all()
    assert isinstance(told.next(), WatchEnded)


def test_objects_of_the_same_process_are_shared(both: Both) -> None:
    """Neither written as JSON nor read again; over HTTP they are text."""
    api = Api(both.embedded)
    api.create(configmap("one"))
    pages = [_page(api.read(ListRequest(_selection(namespace="default")))) for _ in range(2)]
    first, second = (page.objects[0] for page in pages)
    assert first.shared is not None
    assert first.shared is second.shared
    over_http: ObservedObject = _page(Api(both.http).read(ListRequest(_selection()))).objects[0]
    assert over_http.shared is None
    assert over_http.body
