"""metaserver and metamanager on the bus, below a cloud that does not tell the node what it has deleted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive import Message, Module, ModuleName, Operation, handles
from beehive.names import CLOUD_CONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import Metadata
from modules.apimachinery.application import FOLLOW, FOLLOW_RESOURCE, Application, Progress, Target, target_of
from modules.edge.metaserver import stale_objects
from modules.edge.metaserver.stale_objects import FIRST_DELAY, LONGEST_DELAY, PART, rows_of
from modules.edge.metaserver.watch_agent import WatchAgent

SERVICES = Target("", "v1", "services")
OF_SHOP = Target("", "v1", "services", "shop")
ENDPOINTS = Target("", "v1", "endpoints")
NAMESPACES = Target("", "v1", "namespaces")

Answer = dict[str, Any] | str | None
"""The body of the answer to a list; a text is the reason of a refusal, None is silence."""


def named(*names: str, **metadata: Any) -> dict[str, Any]:
    """A list of the cloud; a name without a slash is in the namespace default."""
    items = []
    for each in names:
        namespace, _, name = each.rpartition("/")
        items.append({"metadata": {"namespace": namespace or "default", "name": name}})
    return {"kind": "ServiceList", "metadata": metadata, "items": items}


class _Mesh(Module):
    """edgemesh, as a receiver of messages."""

    name = "edgemesh"
    group = "mesh"

    def __init__(self, ended: list[str]) -> None:
        super().__init__()
        self._ended = ended

    @handles()
    def take(self, message: Message) -> None:
        """Keep what ends."""
        if message.route.operation == Operation.DELETE:
            self._ended.append(message.route.resource)


class _Node:
    """A node with both modules, and its cloud, which agrees to all watches and answers lists by `answers`, the last one
    for ever.
    """

    def __init__(self, bee: Harness, path: Path) -> None:
        self.bee = bee
        self.answers: list[Answer] = [named()]
        self.lists: list[Application] = []
        self.listed_at: list[float] = []
        self.ended: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """Done while a list is requested."""
        bee.add(MetaManager, MetaSettings(str(path)))
        bee.add(WatchAgent, "n1")
        bee.add(_Mesh, self.ended)
        bee.answer(ModuleName.EDGEHUB, self.answer)
        bee.start()

    def answer(self, request: Message) -> Message | None:
        """Answer a request to the cloud."""
        if request.route.source != ModuleName.METASERVER:
            return None
        if request.route.resource == "watchapp/sync":
            return request.reply(self.bee.clock, {}).with_route(operation="applicationResponse")
        app = request.content_as(Application)
        if app.verb == "list":
            self.lists.append(app)
            self.listed_at.append(self.bee.clock.monotonic())
            body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.meanwhile()
            if body is None:
                return None
            is_refused = isinstance(body, str)
            app = msgspec.structs.replace(
                app,
                status=Progress.REJECTED if is_refused else Progress.APPROVED,
                reason=body if is_refused else "",
                resp_body=None if is_refused else json.dumps(body).encode(),
            )
        else:
            app = msgspec.structs.replace(app, status=Progress.APPROVED)
        return request.reply(self.bee.clock, app).with_route(operation="applicationResponse")

    def put(self, *names: str, kind: str = "service", uid: str = "") -> None:
        """The cloud sends objects; a name without a slash is in the namespace default."""
        for each in names:
            namespace, _, name = each.rpartition("/")
            metadata = {"name": name, "uid": uid or f"uid of {each}", "resourceVersion": "7"}
            if namespace != "null":
                metadata["namespace"] = namespace or "default"
            resource = f"{namespace or 'default'}/{kind}/{name}"
            pushed = self.bee.message(resource, "insert", {"metadata": metadata}, source="dynamiccontroller")
            self.bee.hive.send(ModuleName.METAMANAGER, pushed)

    def follow(self, target: Target = SERVICES) -> None:
        """A client reads a collection."""
        self.bee.settle()
        self.bee.send(ModuleName.METASERVER, self.bee.message(FOLLOW_RESOURCE, FOLLOW, target))
        self.bee.settle()

    def connect(self) -> None:
        """There is a new connection."""
        connected = self.bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED, source="edgehub")
        self.bee.send(ModuleName.METASERVER, connected)
        self.bee.settle()

    def stored(self, kind: str = "service") -> dict[str, str]:
        """The uids of the stored objects of a kind, by name."""
        query = self.bee.message(f"null/{kind}", "query", source="edged", group="meta")
        objects = [json.loads(text) for text in self.bee.ask(ModuleName.METAMANAGER, query).content_as(list[str])]
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in objects}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list waits for those of other nodes."""
    monkeypatch.setattr(stale_objects, "SPREAD", 0.0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[_Node]:
    with Harness() as bee:
        yield _Node(bee, tmp_path / "edgecore.db")


def test_objects_that_the_cloud_no_longer_has_end_when_it_agrees_to_the_watch(node: _Node) -> None:
    node.put("web", "old", "shop/web")
    node.put("old", kind="endpoints")
    node.answers = [named("web")]
    node.follow()
    assert (list(node.stored()), list(node.stored("endpoints"))) == (["web"], ["old"])
    assert sorted(node.ended) == ["default/service/old", "shop/service/web"]


def test_the_list_is_one_that_kubeedges_cloud_understands(node: _Node) -> None:
    """Without a resourceVersion it is the newest state; unknown options are ignored there."""
    node.put("web")
    node.follow()
    (listing,) = node.lists
    assert target_of(listing) == SERVICES
    assert json.loads(listing.option or b"") == {"limit": PART, "continue": "", "namesOnly": True}


def test_each_connection_compares_again(node: _Node) -> None:
    """cloudcore may have lost its records meanwhile, and the node's process goes on."""
    node.put("web", "old")
    node.answers = [named("web", "old"), named("web")]
    node.follow()
    node.connect()
    node.bee.run_for(FIRST_DELAY)
    assert list(node.stored()) == ["web"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "forbidden",
        named(remainingItemCount=1),
        {"metadata": {}},
        {"metadata": {}, "items": [{}]},
        {"metadata": {}, "items": "none"},
    ],
    ids=["silence", "refusal", "incomplete", "no list", "an object without metadata", "another form"],
)
def test_without_a_complete_list_nothing_ends(node: _Node, answer: Answer) -> None:
    """The list is asked for again, unless the cloud has given one and may lack objects."""
    node.put("web")
    node.answers = [answer]
    node.follow()
    node.bee.run_for(5 * FIRST_DELAY)
    assert (list(node.stored()), node.ended) == (["web"], [])
    assert len(node.lists) == (1 if answer == named(remainingItemCount=1) else 3)


@pytest.mark.parametrize(
    ("made", "version", "ends"),
    [
        ("2026-11-20T10:00:01Z", "101", True),
        ("2026-11-20T10:00:00Z", "101", False),
        ("2026-11-20T10:00:01Z", "100", False),
        (None, "101", False),
        ({"of": "a hostile cloud"}, "101", False),
    ],
)
def test_what_a_new_cloud_has_made_itself_ends_with_it(node: _Node, made: Any, version: str, *, ends: bool) -> None:
    """What is older may be lost, and not deleted. It lasted until the second start of a cloud that had lost its record
    of a node with the Node object.
    """
    metadata = {"namespace": "default", "name": "web", "uid": "u1", "resourceVersion": version}
    pushed = node.bee.message(
        "default/service/web",
        "insert",
        {"metadata": {**metadata, "creationTimestamp": made}},
        source="dynamiccontroller",
    )
    node.bee.hive.send(ModuleName.METAMANAGER, pushed)
    since = {"creationTimestamp": "2026-11-20T10:00:00Z", "resourceVersion": "100"}
    node.answers = [named(remainingItemCount=1, knownSince=since)]
    node.follow()
    assert list(node.stored()) == ([] if ends else ["web"])


def test_an_answer_that_is_no_application_ends_nothing(node: _Node) -> None:
    """And the module goes on."""

    def answer(request: Message) -> Message | None:
        is_list = request.route.resource == "null" and request.content_as(Application).verb == "list"
        given = node.answer(request)
        return given if given is None or not is_list else given.with_content({"ID": []})

    node.bee.answer(ModuleName.EDGEHUB, answer)
    node.put("web")
    node.follow()
    node.bee.run_for(FIRST_DELAY)
    assert (len(node.lists), list(node.stored())) == (2, ["web"])
    assert node.bee.hive.restarts()[ModuleName.METASERVER] == 0


def test_a_long_list_comes_in_parts(node: _Node) -> None:
    node.put("a", "b", "c")
    node.answers = [named("a", **{"continue": "more", "remainingItemCount": 1}), named("c")]
    node.follow()
    assert [json.loads(each.option or b"")["continue"] for each in node.lists] == ["", "more"]
    assert list(node.stored()) == ["a", "c"]


def test_the_rest_of_a_list_is_not_asked_for_when_all_that_is_stored_was_in_it(node: _Node) -> None:
    node.put("a")
    node.answers = [named("a", **{"continue": "more"}), named()]
    node.follow()
    assert len(node.lists) == 1


def test_a_list_whose_rest_is_refused_ends_nothing_and_begins_again(node: _Node) -> None:
    """As when its continue token has expired."""
    node.put("a", "b", "c")
    part = named("a", **{"continue": "more"})
    node.answers = [part, "expired", part, named("c")]
    node.follow()
    assert list(node.stored()) == ["a", "b", "c"]
    node.bee.run_for(FIRST_DELAY)
    assert [json.loads(each.option or b"")["continue"] for each in node.lists] == ["", "more", "", "more"]
    assert list(node.stored()) == ["a", "c"]


def test_an_object_that_comes_during_the_request_stays(node: _Node) -> None:
    """The list may be older."""
    node.put("web", "old")
    node.meanwhile = lambda: node.put("new")
    node.answers = [named("web")]
    node.follow()
    assert sorted(node.stored()) == ["new", "web"]


def test_another_object_of_the_name_that_comes_during_the_request_stays(node: _Node) -> None:
    """The list may be older than it, and newer than its predecessor."""
    node.put("web", uid="first")
    node.meanwhile = lambda: node.put("web", uid="second")
    node.follow()
    assert node.stored() == {"web": "second"}
    assert node.ended == []


def test_the_watch_of_a_namespace_ends_nothing_in_others(node: _Node) -> None:
    node.put("web", "shop/old")
    node.follow(OF_SHOP)
    assert [target_of(each) for each in node.lists] == [OF_SHOP]
    assert list(node.stored()) == ["web"]


def test_cluster_scoped_objects_end_too(node: _Node) -> None:
    node.put("null/shop", "null/old", kind="namespace")
    node.answers = [{"metadata": {}, "items": [{"metadata": {"name": "shop"}}]}]
    node.follow(NAMESPACES)
    assert list(node.stored("namespace")) == ["shop"]


@pytest.mark.parametrize("target", [SERVICES, Target("networking.k8s.io", "v1", "networkpolicies")])
def test_a_collection_of_which_nothing_is_stored_is_not_listed(node: _Node, target: Target) -> None:
    node.follow(target)
    assert node.lists == []


def test_lists_take_two_kilobytes_a_second_on_average(node: _Node) -> None:
    """All collections together, and however often the link breaks; the last connection counts."""
    node.put("web")
    node.put("web", kind="endpoints")
    node.answers = [{**named("web"), "kind": "x" * 75_000}]  # 100,000 bytes in base64
    node.follow()
    node.follow(ENDPOINTS)
    for _ in range(10):
        node.connect()
        node.bee.run_for(10.0)
    node.bee.run_for(100.0)
    assert [each // 10 * 10 for each in node.listed_at] == [0, 50, 50, 150, 150]
    assert target_of(node.lists[0]) == SERVICES
    assert {target_of(each) for each in node.lists[-2:]} == {SERVICES, ENDPOINTS}


def test_lists_after_a_connection_are_spread(node: _Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes of a cloud that has restarted connect at once, and their pods come first."""
    monkeypatch.setattr(stale_objects, "SPREAD", 30.0)
    node.put("web")
    node.answers = [named("web")]
    node.follow()
    for _ in range(20):
        node.bee.run_for(30.0)
        node.connect()
    waits = [at % 30.0 for at in node.listed_at]
    assert len(waits) == 20
    assert min(waits) < 10.0
    assert max(waits) > 20.0


def test_a_list_that_is_not_given_is_asked_for_at_growing_intervals(node: _Node) -> None:
    """And with the next connection immediately."""
    node.put("web")
    node.answers = ["forbidden"]
    node.follow()
    node.bee.run_for(20 * LONGEST_DELAY)
    waits = [later - earlier for earlier, later in zip(node.listed_at, node.listed_at[1:], strict=False)]
    assert waits[:3] == pytest.approx([FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY])
    assert waits[-1] == pytest.approx(LONGEST_DELAY)
    node.answers, asked = [named("web")], len(node.lists)
    node.connect()
    assert len(node.lists) == asked + 1
    node.bee.run_for(20 * LONGEST_DELAY)
    assert len(node.lists) == asked + 1
    node.answers = ["forbidden"]
    node.connect()
    node.bee.run_for(FIRST_DELAY)
    assert len(node.lists) == asked + 3, "the delays begin again after a list"


def test_a_store_that_cannot_be_read_is_read_later(node: _Node) -> None:
    node.put("web")
    node.bee.settle()
    with Harness() as bee:
        bee.add(WatchAgent, "n1")
        bee.answer(ModuleName.EDGEHUB, node.answer)
        bee.answer(ModuleName.METAMANAGER, lambda query: query.error(bee.clock, "damaged"))
        bee.start()
        bee.send(ModuleName.METASERVER, bee.message(FOLLOW_RESOURCE, FOLLOW, SERVICES), wait=FIRST_DELAY)
        assert len(bee.sent_to(ModuleName.METAMANAGER)) == 2


def test_objects_without_a_uid_or_with_a_slash_in_a_name_are_left_alone() -> None:
    heads = [Metadata("u1", "1", "default", "web"), Metadata("u2", "1", None, "cluster"), Metadata(None, "1", "a", "b")]
    slashes = [Metadata("u3", "1", "a", "b/c"), Metadata("u4", "1", "a/b", "c"), Metadata("u5", "1", "a", None)]
    stored = [msgspec.json.encode({"metadata": each}) for each in (*heads, *slashes)]
    found = {name: head.uid for name, head in rows_of([*stored, b"[]", b"\xff"]).items()}
    assert found == {("default", "web"): "u1", ("", "cluster"): "u2"}


def test_a_list_without_end_is_given_up(node: _Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the link for ever; nothing ends by it."""
    monkeypatch.setattr(stale_objects, "MOST_PARTS", 3)
    node.put("web")
    node.answers = [{**named(), "metadata": {"continue": "more"}}]
    node.follow()
    assert len(node.lists) == 3
    node.bee.run_for(FIRST_DELAY)
    assert len(node.lists) == 6, "it is asked for again"
    assert (list(node.stored()), node.ended) == (["web"], [])
