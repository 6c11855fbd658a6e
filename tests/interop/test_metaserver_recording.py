"""KubeEdge's metaserver as it was recorded, with an application that reads, watches and writes through it.

Two sides are played: the application's HTTP requests, at our metaserver with our cloud behind it, and the real
metaserver's Applications, at our cloud. KubeEdge's cloud let a node do what cloudcore itself may; here access control
is off where the recording needs that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from beehive import Group, Hive, Module, ModuleName, ResourceType, Threads, handles
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from edgehub import EdgeHubSettings, install
from edgehub.outbox.sqlite import open_outbox
from metamanager.client import AsyncMetaClient
from metamanager.module import MetaManager, MetaSettings
from metamanager.store import open_store
from modules.apimachinery.kinds import JsonObject
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import Attributes
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.resources import TOKENS
from modules.edge.metaserver.watch_agent import WatchAgent
from modules.edge.metaserver.watch_cache import WatchCache
from modules.edge.metaserver.watch_cache_store import watch_cache_opener
from modules.processes.common.version import KUBELET_VERSION
from tests.end_to_end.processes import wait_until
from tests.interop.forms import form_of
from tests.interop.test_traces_cloud import World
from tests.interop.traces import KUBEEDGE, is_message, lines_of
from tests.modules.cloud.objects import namespace
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Apply, ControlClient, Delete
from tests.support.kubectl import Kubectl, Reply

Json = dict[str, Any]

NODE: Final = "cap-edge"
NAMESPACE: Final = "cap"
_BASE: Final = "http://127.0.0.1:10550"
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_CONTENT_TYPE: Final = "Content-Type"

NOT_OURS: Final = {
    "/status/": "edged reports the statuses of pods and nodes, and there is none here",
    "/metadata/continue": "an API server leaves an empty continue token out",
    "/spec/podCIDR": "the node controller assigns it",
}
"""Parts of the recorded bodies that ours do not have, with reasons."""


class NothingRefused(AccessControl):
    """KubeEdge without `requireAuthorization`."""

    def authorize(self, request: Attributes) -> None:
        """Allow every request."""

    def admission(self, node: str) -> Callable[[JsonObject | None, JsonObject | None], None]:
        """Return a function that admits every write."""
        return lambda _old, _new: None


class Registrar(Module):
    """In edged's place: registers the node."""

    name = ModuleName.EDGED
    group = Group.EDGED

    def __init__(self, node: Json) -> None:
        super().__init__()
        self._node = node

    def on_start(self) -> None:
        """Register, until the cloud has answered."""
        self._meta = AsyncMetaClient(self)
        self._register()

    def _register(self) -> None:
        self._meta.create(ResourceType.NODE, "", NODE, json.dumps(self._node).encode(), then=self._registered)

    def _registered(self, answer: object) -> None:
        if isinstance(answer, Exception):
            self.after(0.3, self._register)

    @handles()
    def other(self, _message: object) -> None:
        """Ignore the node's objects."""


class Edge:
    """A node with metamanager, edgehub and the metaserver, and its cloud. A context manager.

    Args:
        directory: an empty one.
        node: its Node object.
    """

    def __init__(self, directory: Path, node: Json) -> None:
        self._stack = ExitStack()
        (directory / "cloud").mkdir()
        cloud = self._stack.enter_context(Stub(directory / "cloud"))
        self.people = cloud.client
        threads = Threads()
        self._stack.callback(threads.close)
        hive = self._hive = Hive(threads)
        cache = WatchCache(hive.clock.now_ms())
        host, port = cloud.core.address
        hub = EdgeHubSettings(url=f"ws://{host}:{port}/e632/{NODE}/events", node=NODE, message_qps=0.0)
        opener = watch_cache_opener(open_store, cache, TOKENS - {ResourceType.SECRET})
        hive.add(MetaManager, MetaSettings(str(directory / "edge.db")), opener)
        hive.add(Registrar, node)
        hive.add(WatchAgent, NODE)
        install(hive, hub, open_outbox=lambda: open_outbox(directory / "outbox.db", hive.clock.now()))
        api = Api(ApiSettings(NODE, KUBELET_VERSION, secrets=False), cache, hive)
        self._server = HttpServer(listen_tcp("127.0.0.1", 0), api, hive.clock, max_body=3 << 20)
        self.application = Kubectl(self._server.port)

    def __enter__(self) -> Edge:
        self._hive.start()
        self._stack.callback(self._hive.stop)
        self._server.start()
        self._stack.callback(self._server.stop)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()


def recorded(name: str = "m1-metaserver") -> list[Json]:
    """The lines of a recording of the edge."""
    return lines_of(KUBEEDGE / f"{name}.jsonl")


def body_of(line: Json) -> Any:
    """The body of a line of HTTP."""
    text = line["body"].get("text", "")
    return json.loads(text) if text else None


def bodies(path: str) -> Json:
    """The recorded body of the answer to a GET."""
    lines = iter(recorded())
    next(line for line in lines if line["kind"] == "local-http-request" and line["line"] == f"GET {_BASE}{path}")
    found: Json = body_of(next(line for line in lines if line["kind"] == "local-http-response-body"))
    return found


def as_applied(obj: Json, kind: str) -> Json:
    """An object of an API server as a person would have written it."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels", "annotations")
                if key in obj["metadata"]}  # fmt: skip
    written = {key: value for key, value in obj.items() if key not in ("status", "metadata")}
    return {**written, "apiVersion": "v1", "kind": kind, "metadata": metadata}


def objects_before() -> list[Json]:
    """The pod and the configmaps that the cluster had."""
    return [
        namespace(NAMESPACE),
        *(as_applied(each, "ConfigMap") for each in bodies("/api/v1/namespaces/cap/configmaps")["items"]),
        *(as_applied(each, "Pod") for each in bodies("/api/v1/namespaces/cap/pods")["items"]),
    ]


def user_of_configmaps() -> Json:
    """A pod that uses the configmaps which are made later: a node has only what its pods use."""
    uses = [{"configMapRef": {"name": name, "optional": True}} for name in ("cm1", "cm2")]
    spec = {"containers": [{"name": "main", "image": "busybox", "envFrom": uses}], "nodeName": NODE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": NAMESPACE}, "spec": spec}


def act(people: ControlClient, message: Json) -> None:
    """A person's change of a configmap that the real cloud told the node of."""
    content = message["content"]
    if message["route"]["operation"] == "delete":
        people.run(Delete("configmap", content["metadata"]["name"], NAMESPACE))
    else:
        people.run(Apply([as_applied(content, "ConfigMap")]))


def is_of_people(line: Json) -> bool:
    """Whether the real cloud told the node of a change that a person had made."""
    if not is_message(line) or line["dir"] != "cloud->edge":
        return False
    return bool(line["msg"]["route"]["resource"] == f"{NAMESPACE}/configmap/cm1")


def lacking(theirs: Any, ours: Any) -> set[str]:
    """What a body of ours does not have."""
    return {path for path in form_of(theirs) - form_of(ours) if not any(part in path for part in NOT_OURS)}


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    """A node that has all that the recorded one had."""
    with Edge(tmp_path, as_applied(bodies(f"/api/v1/nodes/{NODE}"), "Node")) as made:
        items = made.people.run(Apply([*objects_before(), user_of_configmaps()]))
        assert not [item.error for item in items if item.error]
        ask = made.application.ask
        wait_until(lambda: ask(f"/api/v1/nodes/{NODE}").status == 200, "the node is registered")
        wait_until(lambda: len(ask("/api/v1/namespaces/cap/pods").body["items"]) == 2, "it has its pods")
        names = {each["metadata"]["name"] for each in bodies("/api/v1/namespaces/cap/configmaps")["items"]}
        wait_until(lambda: {row[0] for row in made.application.rows("/api/v1/namespaces/cap/configmaps")} == names,
                   "it has their configmaps")  # fmt: skip
        yield made


@pytest.fixture
def nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """KubeEdge's default."""
    for module in ("edgecontroller.module", "apiserver.authorized_calls"):
        monkeypatch.setattr(f"modules.cloud.{module}.AccessControl", NothingRefused)


@pytest.mark.usefixtures("nothing_refused")
def test_an_application_is_answered_as_by_the_real_metaserver(edge: Edge) -> None:
    """Each request in its order: the same statuses, and bodies and lines of the watch of the same form."""
    reply: Reply | None = None
    events: Iterator[Json] = iter(())
    played = 0
    with ExitStack() as watches:
        for line in recorded():
            what = line.get("line", line.get("body"))
            match line["kind"]:
                case "local-http-request" if "watch=true" in line["line"]:
                    path = line["line"].split()[1].removeprefix(_BASE)
                    events = watches.enter_context(edge.application.watch(path))
                    reply = None
                case "local-http-request":
                    reply = ask(edge, line)
                case "local-http-response-head":
                    assert reply is None or reply.status == line["status"], reply
                    played += 1
                case "local-http-response-body":
                    assert reply is not None
                    assert lacking(body_of(line), reply.body) == set(), reply.body
                case "local-http-response-line":
                    theirs = body_of(line)
                    ours = next(event for event in events if is_of_configmap(event, theirs))
                    assert ours["type"] == theirs["type"], what
                    assert lacking(theirs, ours) == set(), ours
                    played += 1
                case _ if is_of_people(line):
                    act(edge.people, line["msg"])
    assert played == 12 + 7


def ask(edge: Edge, line: Json) -> Reply:
    """Make a recorded request."""
    method, url, *_ = line["line"].split()
    headers = {name.replace("-", "_"): value for name, value in line["headers"] if name == _CONTENT_TYPE}
    return edge.application.ask(url.removeprefix(_BASE), method=method, body=body_of(line), **headers)


def is_of_configmap(event: Json, theirs: Json) -> bool:
    """Whether an event is about the recorded configmap: ours also report earlier objects."""
    name = event["object"]["metadata"].get("name", "")
    return bool(name == theirs["object"]["metadata"]["name"])


def test_a_node_may_not_write_objects_of_others(edge: Edge) -> None:
    """Unlike in KubeEdge: a configmap is another's."""
    refused = [ask(edge, line) for line in recorded() if line.get("line", "").startswith(_WRITES)]
    assert [(reply.status, reply.body["reason"]) for reply in refused] == [(403, "Forbidden")] * 4


@pytest.mark.usefixtures("nothing_refused")
def test_our_cloud_answers_the_applications_of_the_real_metaserver(tmp_path: Path) -> None:
    """With the same statuses and bodies of the same form. What its watch selects comes in the same messages, but from
    edgecontroller: our cloud sends a node the configmaps that its pods use, and no others.
    """
    with closing(World(tmp_path)) as world:
        start = recorded("start")
        world.prepare(*objects_before(), user_of_configmaps())
        world.connect(next(line for line in start if line.get("line", "").endswith("/events HTTP/1.1")))
        registered = ("insert", f"null/node/{NODE}")
        world.edge_says(next(line["msg"] for line in start if is_message(line) and _step(line) == registered))
        answers, changes = _answer(world)
    assert (answers, changes) == (12, 7)


def _answer(world: World) -> tuple[int, int]:
    """Play the Applications and what the watch brought; return how many of each the real cloud sent."""
    answers = changes = 0
    for line in recorded():
        if not is_message(line) or not _is_of_metaserver(line["msg"]):
            continue
        theirs = line["msg"]
        if line["dir"] == "edge->cloud":
            world.edge_says(theirs)
            continue
        if is_of_people(line):
            act(world.people, theirs)
        ours = world.cloud_said(theirs)
        assert ours is not None, theirs["route"]
        told = ours.content_as(dict)
        if theirs["route"]["operation"] == "applicationResponse":
            assert told["Status"] == theirs["content"]["Status"], told
            assert told.keys() == theirs["content"].keys()
            assert lacking(_response(theirs["content"]), _response(told)) == set(), told
            assert lacking(theirs["content"]["Error"], told["Error"]) == set(), told
            answers += 1
        else:
            assert (theirs["route"]["source"], ours.route.source) == ("dynamiccontroller", "edgecontroller")
            assert lacking(theirs["content"], told) == set(), told
            changes += 1
    return answers, changes


def _response(application: Json) -> Any:
    """The object, or the list, of an Application."""
    text = base64.b64decode(application["RespBody"] or "")
    return json.loads(text) if text else None


def _is_of_metaserver(message: Json) -> bool:
    sources = (message["route"]["source"], message["route"]["operation"])
    return bool({"metaserver", "dynamiccontroller", "applicationResponse"} & set(sources))


def _step(line: Json) -> tuple[str, str]:
    return line["msg"]["route"]["operation"], line["msg"]["route"]["resource"]
