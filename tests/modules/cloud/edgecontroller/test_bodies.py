"""The bodies that a cluster's mirror keeps, and the ones read again when a node needs them."""

from collections.abc import Callable, Iterator

import msgspec
import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, kind_named
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.edgecontroller.mirror.kept_bodies import KeptBodies
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.object_sync import ClaimedConnection
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange
from tests.modules.cloud.edgecontroller.controller import USES, WEB, lone_downstream
from tests.modules.cloud.objects import configmap, node, pod, secret
from tests.support.presence import present

LARGE = "x" * 20_000
"""So much is not kept without a reason."""
EDGE = {"node-role.kubernetes.io/edge": ""}
POD, SECRET, NODE = kind_named("Pod"), kind_named("Secret"), kind_named("Node")
INSERT = "insert node/n1/default/pod/web"


@pytest.fixture(autouse=True)
def few_recent_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less is kept without a reason than one large object."""
    monkeypatch.setattr("modules.cloud.edgecontroller.mirror.kept_bodies._MOST_RECENT_BYTES", len(LARGE))


@pytest.fixture
def core() -> Iterator[ClusterController]:
    """Without a connected node."""
    with Harness() as bee:
        yield ClusterController(bee, nodes=())


def lists_of_pods(core: ClusterController) -> list[dict[str, str]]:
    """The queries of the lists of one node's pods."""
    return [query for _, query in core.server.lists if "spec.nodeName=" in query.get("fieldSelector", "")]


def read(core: ClusterController) -> list[str]:
    """The objects that were read one by one."""
    return [f"{call.verb} {call.plural} {call.name}" for call in core.server.requests]


def test_what_is_read_for_a_node_that_connects_is_kept_as_json(core: ClusterController) -> None:
    """An object takes several times as much memory (simulation, api, seed 31092)."""
    core.applied(secret(a=LARGE), pod(imagePullSecrets=USES["imagePullSecrets"]))
    core.connected("n1")
    assert INSERT in core.down()
    running = core.bee.hive.slot(EdgeController.name).running
    module = None if running is None else running.ref._actor_weakref()
    assert isinstance(module, EdgeController)
    mirror = module._transactions._storage
    assert isinstance(mirror, Mirror)
    for key in (WEB, ObjectKey("Secret", "default", "key")):
        mirrored = present(mirror.bodies.get(key))
        assert (mirrored.is_whole, type(mirrored.kept)) == (True, bytes)


def test_the_pods_of_a_node_that_connects_are_read_and_sent_after_their_references(core: ClusterController) -> None:
    core.applied(configmap(a=LARGE), secret(a=LARGE), pod(**USES), pod("other", nodeName="n2"))
    core.connected("n1")
    assert core.down() == ["insert node/n1/default/configmap/settings", "update node/n1/default/secret/key", INSERT]
    (query,) = lists_of_pods(core)
    assert query["fieldSelector"] == "spec.nodeName=n1"
    assert "resourceVersion" in query, "so that the API server answers from its cache"
    assert sorted(read(core)) == ["get configmaps settings", "get secrets key"]


def test_objects_are_sent_whole(core: ClusterController) -> None:
    core.applied(configmap(a=LARGE), pod(**USES))
    core.connected("n1")
    sent = {message.route.resource: message.content_as(dict) for message in core.unasked()}
    assert sent["node/n1/default/configmap/settings"]["data"] == {"a": LARGE}
    assert sent["node/n1/default/pod/web"]["spec"]["containers"][0]["image"] == "busybox:1.35"


def test_nothing_is_read_for_an_edge_node() -> None:
    """A cloudcore that restarts has what its nodes need after its first lists."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.apply({"kind": "Node", "apiVersion": "v1", **node("n1", **EDGE)}, configmap(a=LARGE), pod(**USES))
        core = ClusterController(bee, server)
        assert INSERT in core.down()
        assert lists_of_pods(core) == []
        assert read(core) == []


def test_few_objects_are_read_at_a_time(core: ClusterController, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's queue has an end; a node is sent its pods after the last of them."""
    monkeypatch.setattr("modules.cloud.edgecontroller.mirror.missing_bodies._MOST_AT_ONCE", 2)
    names = [f"c{at}" for at in range(6)]
    volumes = [{"name": name, "configMap": {"name": name}} for name in names]
    core.applied(*(configmap(name, a=LARGE) for name in names), pod(volumes=volumes))
    held: list[FakeExchange] = []
    core.server.answers["configmaps"] = held.append
    core.connected("n1")
    core.connected("n2")
    for answered in range(len(names)):
        assert len(held) == min(2, len(names) - answered)
        assert INSERT not in core.down()
        exchange = held.pop(0)
        exchange.answer(200, core.server.cluster.storage.get(ObjectKey("ConfigMap", "default", exchange.call.name)))
        core.bee.settle()
    sent = core.down()
    assert (held, sent.count(INSERT), len(sent)) == ([], 1, len(names) + 1)


def test_a_read_that_fails_is_repeated_and_the_node_waits(core: ClusterController) -> None:
    core.applied(pod())
    failed: list[str] = []

    def fail(exchange: FakeExchange) -> None:
        failed.append(exchange.call.verb)
        exchange.answer(500, {"kind": "Status", "code": 500})

    core.server.answers["pods"] = fail
    core.connected("n1", seconds=60.0)
    assert core.down() == []
    assert len(failed) > 5, "more often than a call is repeated by itself"
    core.server.answers.clear()
    assert set(core.down(after=60.0)) == {INSERT}, "and again, as it is not acknowledged"


def test_a_pod_that_changes_while_its_node_is_read_for_is_sent_once(core: ClusterController) -> None:
    """In its newest version, whatever the answer has."""
    core.applied(pod())
    core.server.hold("pods")
    core.connected("n1")
    core.applied(pod(activeDeadlineSeconds=60))
    assert core.down() == []
    core.server.release()
    core.bee.settle()
    (message,) = core.unasked()
    assert message.content_as(dict)["spec"]["activeDeadlineSeconds"] == 60
    core.bee.forget()
    assert core.down(after=5.0) == []


def test_a_pod_that_is_newer_in_the_answer_is_sent_when_the_watch_tells_of_it(core: ClusterController) -> None:
    core.applied(pod())
    watches = core.server.hold_watches()
    core.server.apply(pod(activeDeadlineSeconds=60))
    core.connected("n1")
    assert core.down() == []
    core.server.go_on(watches)
    core.bee.settle()
    (message,) = core.unasked()
    assert message.route.operation == "insert"
    assert message.content_as(dict)["spec"]["activeDeadlineSeconds"] == 60


def test_a_pod_that_goes_while_its_node_is_read_for_is_not_sent(core: ClusterController) -> None:
    core.applied(pod(), pod("other"))
    core.server.hold("pods")
    core.connected("n1")
    core.removed("pods", "web")
    core.server.release()
    assert core.down() == ["insert node/n1/default/pod/other"]


def test_a_node_that_leaves_while_it_is_read_for_is_sent_nothing(core: ClusterController) -> None:
    core.applied(pod())
    core.server.hold("pods")
    core.connected("n1")
    core.of_link("disconnected", core.links)
    core.bee.settle()
    core.server.release()
    assert core.down(after=30.0) == []


def test_a_node_that_connects_again_while_it_is_read_for_is_sent_its_pods_once(core: ClusterController) -> None:
    """The first connection has ended when the answer comes; the pods are asked for once."""
    core.applied(pod())
    core.server.hold("pods")
    core.connected("n1")
    core.connected("n1")
    core.of_link("disconnected", core.links - 1)
    core.bee.settle()
    core.server.release()
    assert core.down() == [INSERT]
    assert len(lists_of_pods(core)) == 1
    core.applied(pod(activeDeadlineSeconds=60))
    assert core.down() == ["update node/n1/default/pod/web"], "the second connection counts"


def test_a_large_secret_is_read_when_a_pod_refers_to_it(core: ClusterController) -> None:
    """The pod does not wait for it: a node asks for what it lacks."""
    core.connected("n1")
    core.applied(secret(a=LARGE))
    core.applied(pod(imagePullSecrets=[{"name": "key"}]))
    assert core.down() == [INSERT, "update node/n1/default/secret/key"]
    assert read(core) == ["get secrets key"]
    core.applied(secret(a=LARGE, b="2"))
    assert core.down() == ["update node/n1/default/secret/key"]
    assert read(core) == ["get secrets key"], "it is kept now"


@pytest.mark.parametrize("code", [403, 404])
def test_a_secret_that_may_not_be_read_is_asked_for_once(core: ClusterController, code: int) -> None:
    core.connected("n1")
    core.applied(secret(a=LARGE))
    core.server.answers["secrets"] = lambda exchange: exchange.answer(code, {"kind": "Status", "code": code})
    core.applied(pod(imagePullSecrets=[{"name": "key"}]), seconds=8.0)
    assert len(read(core)) == 1


def test_a_secret_that_cannot_be_read_is_read_later(core: ClusterController) -> None:
    core.connected("n1")
    core.applied(secret(a=LARGE))
    core.server.answers["secrets"] = lambda exchange: exchange.answer(500, {"kind": "Status", "code": 500})
    core.applied(pod(imagePullSecrets=[{"name": "key"}]), seconds=60.0)
    assert set(core.down()) == {INSERT}
    core.server.answers.clear()
    assert "update node/n1/default/secret/key" in core.down(after=60.0)


def test_a_node_may_ask_for_a_secret_that_is_here_in_part(core: ClusterController) -> None:
    core.applied(secret(a=LARGE), pod(imagePullSecrets=[{"name": "key"}]))
    request = core.asks("default/secret/key", "query")
    assert core.answer_to(request).content["data"]


def test_a_node_may_not_read_another_nodes_pod_that_is_here_in_part(core: ClusterController) -> None:
    core.applied(pod(nodeName="n2"))
    request = core.asks("default/podpatch/web", "patch", '{"status": {"phase": "Running"}}')
    assert core.answer_to(request).content["Err"]["ErrStatus"]["code"] == 403


class Kept:
    """A mirror with what decides on its bodies."""

    def __init__(self) -> None:
        self.mirror = Mirror(self._keeps)
        syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
        self.downstream = lone_downstream(self.mirror, syncs)
        self.database = Database(IN_MEMORY, "one", stores_objects=False)
        self.known = KnownCloudcores("one")
        self.later: list[Callable[[], None]] = []
        self.bodies = KeptBodies(
            self.mirror.bodies, self.downstream.locations, self.database, self.known, self.later.append
        )
        self._version = 1

    def _keeps(self, key: ObjectKey, obj: JsonObject, size: int) -> bool:
        return self.bodies.keeps(key, obj, size)

    def observe(self, kind: Kind, obj: JsonObject) -> None:
        """The API server tells of an object."""
        self._version += 1
        place = "default" if kind.namespaced else ""
        meta = {**obj["metadata"], "namespace": place, "uid": f"u-{obj['metadata']['name']}"}
        meta["resourceVersion"] = str(self._version)
        body = msgspec.json.encode({**obj, "metadata": meta})
        self.mirror.observe(kind, ObservedObject(place, meta["name"], meta["uid"], str(self._version), body))
        for event in self.mirror.drain_events():
            self.downstream.handle_event(event)
            self.bodies.handle_event(event)

    def look(self) -> None:
        """As it does from time to time, and to the end."""
        self.bodies.collect()
        while self.later:
            self.later.pop()()


@pytest.fixture
def kept() -> Iterator[Kept]:
    """With an edge node, n1, and another node, n2."""
    made = Kept()
    made.observe(NODE, node("n1", **EDGE))
    made.observe(NODE, node("n2"))
    yield made
    made.database.close()


def test_a_body_goes_when_another_cloudcore_has_the_node(kept: Kept) -> None:
    kept.observe(POD, pod(**USES))
    kept.observe(SECRET, secret(a=LARGE))
    assert not kept.mirror.bodies.is_partial(WEB)
    kept.bodies.claimed([("n1", "other")])
    kept.look()
    assert kept.mirror.bodies.is_partial(WEB)
    assert kept.mirror.bodies.is_partial(ObjectKey("Secret", "default", "key"))
    assert kept.downstream.locations.references_on("n1"), "what it refers to is known all the same"


def test_a_node_that_comes_back_from_another_cloudcore_is_kept_whole_from_then_on(kept: Kept) -> None:
    kept.bodies.claimed([("n1", "other")])
    kept.observe(POD, pod())
    assert kept.mirror.bodies.is_partial(WEB)
    kept.bodies.connecting("n1")
    kept.observe(POD, pod(activeDeadlineSeconds=60))
    assert not kept.mirror.bodies.is_partial(WEB)


def test_of_several_without_a_database_one_drops_states_that_are_missing_for_two_looks(kept: Kept) -> None:
    kept.observe(POD, pod())
    kept.look()
    kept.look()
    assert not kept.mirror.bodies.is_partial(WEB), "there is no other"
    kept.known.alive = ("one", "two")
    kept.look()
    assert not kept.mirror.bodies.is_partial(WEB)
    kept.look()
    assert kept.mirror.bodies.is_partial(WEB)


def test_a_node_that_connects_for_longer_than_two_looks_is_no_other_cloudcores(kept: Kept) -> None:
    kept.known.alive = ("one", "two")
    kept.bodies.connecting("n1")
    for _ in range(3):
        kept.look()
    kept.bodies.connected("n1")
    kept.observe(POD, pod())
    assert not kept.mirror.bodies.is_partial(WEB)


def test_a_connected_node_of_any_kind_is_kept_whole(kept: Kept) -> None:
    kept.known.alive = ("one", "two")
    kept.database.connected["n2"] = ClaimedConnection("link 1", 0)
    kept.observe(POD, pod(nodeName="n2"))
    kept.look()
    kept.look()
    assert not kept.mirror.bodies.is_partial(WEB)


def test_the_newest_small_configmaps_are_kept_without_a_pod_and_no_more_than_those(kept: Kept) -> None:
    """Most are written just before their pods."""
    for number in range(200):
        kept.observe(kind_named("ConfigMap"), configmap(f"c{number}", a="1"))
    whole = {key.name for key in kept.mirror.bodies.whole("ConfigMap")}
    assert whole == {f"c{number}" for number in range(72, 200)}
    kept.look()
    assert len(kept.mirror.bodies.whole("ConfigMap")) == 128


def test_one_configmap_that_changes_again_and_again_takes_one_place(kept: Kept) -> None:
    kept.observe(kind_named("ConfigMap"), configmap("c", a="1"))
    for number in range(200):
        kept.observe(kind_named("ConfigMap"), configmap("changing", a=f"{number}" + 5_000 * "x"))
    assert len(kept.mirror.bodies.whole("ConfigMap")) == 2
    assert kept.bodies._recent_bytes == sum(kept.bodies._recent.values())


def test_a_node_that_was_deleted_and_made_again_is_no_other_cloudcores(kept: Kept) -> None:
    kept.bodies.claimed([("n1", "other")])
    kept.mirror.remove(ObjectKey("Node", "", "n1"))
    for event in kept.mirror.drain_events():
        kept.bodies.handle_event(event)
    kept.observe(NODE, node("n1", **EDGE))
    kept.observe(POD, pod())
    assert not kept.mirror.bodies.is_partial(WEB)


def test_a_connection_that_failed_keeps_no_bodies(kept: Kept) -> None:
    kept.bodies.connecting("n2")
    kept.bodies.connected("n2")
    kept.observe(POD, pod(nodeName="n2"))
    assert kept.mirror.bodies.is_partial(WEB)


def test_a_pod_of_a_node_that_is_no_edge_node_is_in_the_mirror_in_part(kept: Kept) -> None:
    kept.observe(POD, pod(nodeName="n2"))
    found = present(kept.mirror.find(WEB))
    assert found["spec"]["nodeName"] == "n2"
    assert kept.mirror.bodies.find_whole(WEB) is None
    assert kept.mirror.bodies.body_of(WEB, found["metadata"]["resourceVersion"]) is None


def test_a_rolled_back_change_leaves_the_part(kept: Kept) -> None:
    kept.observe(POD, pod(nodeName="n2"))
    kept.mirror.set_savepoint()
    kept.bodies.connecting("n2")
    body = {**pod(nodeName="n2"), "metadata": {"name": "web", "namespace": "default", "uid": "u-web"}}
    kept.mirror.observe(POD, ObservedObject("default", "web", "u-web", "9", msgspec.json.encode(body)))
    (event,) = kept.mirror.drain_events()
    assert event.type is EventType.ADDED
    assert event.old is not None, "indexes go back to the part"
    kept.mirror.roll_back()
    assert kept.mirror.bodies.is_partial(WEB)
