"""What nodes have acknowledged, in the cluster and nowhere else."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.message import Message
from beehive.runtime import Future
from beehive.simulation import Simulation
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of, version_of
from modules.cloud.client.calls import Answered, ApiCall, ApiResult
from modules.cloud.coordination.lease_settings import NAMESPACE
from modules.cloud.edgecontroller.cluster import state
from modules.cloud.edgecontroller.cluster.state import ClusterState, _hash
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.edgecontroller.state import node_states
from modules.cloud.edgecontroller.state.node_states import API_VERSION, PLURAL, StoredState, object_of, packed, read
from modules.cloud.storage.database import IN_MEMORY
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_sync import Holder, NodeState, ObjectSync
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.edgecontroller.test_node_state import pods_in
from tests.modules.cloud.objects import configmap, node, pod
from tests.support.presence import present

N1 = {"kind": "Node", "apiVersion": "v1", **node()}
INSERT = "insert node/n1/default/pod/web"
SETTINGS = ObjectKey("ConfigMap", "default", "settings")


class NodeStates:
    """The NodeStates of a cluster, as its API server keeps them; outlives cloudcores."""

    def __init__(self) -> None:
        self.objects: dict[str, JsonObject] = {}
        self.writes: list[str] = []
        """The names of those written."""
        self.loses_answers = False
        self.page = 100
        """Objects in an answer to a list."""
        self.namespace = NAMESPACE
        self._version = 0

    def serve(self, exchange: FakeExchange) -> None:
        """Answers a request for them."""
        call = exchange.call
        assert (call.api_version, call.namespace) == (API_VERSION, self.namespace)
        known = self.objects.get(call.name)
        if call.verb == "list":
            self._list(exchange)
        elif call.verb == "create":
            self._write(exchange, call.body, is_stale=call.body["metadata"]["name"] in self.objects)
        elif known is None:
            exchange.answer(404, {"kind": "Status", "code": 404})
        elif call.verb == "get":
            exchange.answer(200, known)
        else:
            self._write(exchange, call.body, is_stale=version_of(call.body) != version_of(known))

    def _list(self, exchange: FakeExchange) -> None:
        begin = int(exchange.query.get("continue", "0"))
        items = list(self.objects.values())
        rest = str(begin + self.page) if begin + self.page < len(items) else ""
        metadata = {"resourceVersion": "1", "continue": rest}
        exchange.answer(200, {"metadata": metadata, "items": items[begin : begin + self.page]})

    def _write(self, exchange: FakeExchange, body: JsonObject, *, is_stale: bool) -> None:
        if is_stale:
            exchange.answer(409, {"kind": "Status", "code": 409})
            return
        self._version += 1
        name = body["metadata"]["name"]
        self.objects[name] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        self.writes.append(name)
        if self.loses_answers:
            exchange.break_off()
        else:
            exchange.answer(200, self.objects[name])

    def of(self, name: str = "n1") -> StoredState:
        """What is kept of a node."""
        return present(read(self.objects[name]))


class Site:
    """A cluster, and the cloudcores that work with it one after the other, or beside each other."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.states = NodeStates()
        self.objects: list[JsonObject] = []
        self.refused = ""
        """The plural of what its API server does not let the next cloudcores list."""
        self._made = 0

    def core(self, *nodes: str, seconds: float = 0.0) -> ClusterController:
        """Starts a cloudcore, with nodes that connect immediately, and lets time pass."""
        self._made += 1
        bee = self._stack.enter_context(Harness(self._made))
        server = ClusterServer(bee.clock)
        server.restore(self.objects)
        server.answers[PLURAL] = self.states.serve
        if self.refused:
            server.answers[self.refused] = lambda exchange: exchange.answer(403, {"kind": "Status", "message": "no"})
        database = Database(IN_MEMORY, f"cloudcore-{self._made}", stores_objects=False)
        self._stack.callback(database.close)
        core = ClusterController(bee, server, database, nodes, keeps_state=True, namespace=self.states.namespace)
        bee.run_for(1.0 + seconds)
        return core

    @contextmanager
    def first(self, *nodes: str) -> Iterator[ClusterController]:
        """Runs the first cloudcore; the others have its objects."""
        core = self.core(*nodes)
        yield core
        core.bee.run_for(11.0)
        self.objects = core.server.objects()


@pytest.fixture
def site() -> Iterator[Site]:
    """With a Node and a pod, which the node has acknowledged."""
    with ExitStack() as stack:
        made = Site(stack)
        with made.first("n1") as core:
            core.applied(N1, pod())
            acknowledge(core)
        yield made


def acknowledge(core: ClusterController) -> None:
    """n1 acknowledges the pod."""
    live = core.server.cluster.storage.get(WEB)
    core.acknowledged(uid_of(live), int(version_of(live)))
    core.down()


def test_after_a_restart_nothing_is_sent_again(site: Site) -> None:
    """Nothing is left of the first cloudcore but the NodeState."""
    core = site.core("n1", seconds=60.0)
    assert pods_in(core.down()) == []


def test_a_deletion_is_owed_that_was_made_meanwhile(site: Site) -> None:
    site.objects = [each for each in site.objects if each["kind"] != "Pod"]
    core = site.core("n1")
    assert "delete node/n1/default/pod/web" in core.down()


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_deletion_that_was_not_acknowledged_before_a_kill_is_sent_again(site: Site, *, is_acknowledged: bool) -> None:
    """By the next cloudcore, whose cluster has only what this one has written: an object may be old or new."""
    core = site.core("n1")
    core.applied(pod("reader", **USES), configmap(), seconds=6.0)
    for key in (WEB, SETTINGS) if is_acknowledged else ():
        live = core.server.cluster.storage.get(key)
        core.acknowledged(uid_of(live), int(version_of(live)))
    core.bee.run_for(6.0)
    core.down()
    for word, name in (("pod", "web"), ("cm", "settings")):
        core.removed(word, name)
    sent = {"delete node/n1/default/pod/web", "delete node/n1/default/configmap/settings"}
    assert sent <= {*core.down()}
    core.applied(pod("later"))  # so that the versions of the cluster do not go back
    site.objects = core.server.objects()  # it is killed
    other = site.core("n1", seconds=1.0)
    assert sent <= {*other.down()}
    assert sent <= {*other.down(after=20.0)}, "until they are acknowledged"


def test_an_object_whose_record_a_kill_has_lost_is_deleted_with_its_name(site: Site) -> None:
    """It was sent within the five seconds before, and deleted after the kill: a pod would go on with it."""
    core = site.core("n1")
    core.applied(pod("reader", **USES), configmap(), seconds=1.0)
    assert "insert node/n1/default/configmap/settings" in core.down()
    site.objects = [each for each in core.server.objects() if each["kind"] != "ConfigMap"]  # it is killed
    other = site.core("n1")
    sent = other.down()
    gone, reader = "delete node/n1/default/configmap/settings", "insert node/n1/default/pod/reader"
    assert sent.index(gone) < sent.index(reader), "the pod does not start with it"
    assert "delete node/n1/default/secret/key" in sent, "the node may have that, too, for all that is known"
    other.applied(configmap(), seconds=1.0)
    assert "insert node/n1/default/configmap/settings" in other.down()
    other.of_link("disconnected", 1, seconds=6.0)
    other.connected(seconds=1.0)
    assert "delete node/n1/default/configmap/settings" not in other.down()


@pytest.mark.parametrize("seconds", [0.0, 6.0], ids=["not recorded", "recorded"])
def test_nothing_is_deleted_of_a_kind_that_the_api_server_refuses(site: Site, seconds: float) -> None:
    """cloudcore lost the right to ConfigMaps; a node that needs them would end with it."""
    core = site.core("n1")
    core.applied(pod("reader", **USES), configmap(), seconds=1.0 + seconds)
    assert "insert node/n1/default/configmap/settings" in core.down()
    site.objects, site.refused = core.server.objects(), "configmaps"
    other = site.core("n1", seconds=60.0)
    assert [each for each in other.down() if "/configmap/" in each] == []
    other.server.answers.pop("configmaps")
    other.pass_time(60.0)
    other.removed("cm", "settings", seconds=1.0)
    assert "delete node/n1/default/configmap/settings" in other.down()


def test_it_belongs_to_the_node_and_is_collected_with_it(site: Site) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": site.states.of().state.uid}
    assert site.states.objects["n1"]["metadata"]["ownerReferences"] == [owner]
    for each in site.objects:
        if each["kind"] == "Node":
            each["metadata"]["uid"] = "another"
    assert INSERT in site.core("n1").down()


def test_it_is_written_at_most_every_five_seconds_and_only_when_it_has_changed(site: Site) -> None:
    core = site.core("n1", seconds=60.0)
    site.states.writes.clear()
    core.bee.run_for(300.0)
    assert site.states.writes == []
    for number in range(20):
        core.applied(pod(f"p{number}"), seconds=0.5)
    core.bee.run_for(5.0)
    assert 2 <= len(site.states.writes) <= 3
    assert len(site.states.of().syncs) >= 21


def test_it_is_written_when_a_node_disconnects(site: Site) -> None:
    """cloudcore may be stopping; what was acknowledged last would be sent again by the next one."""
    core = site.core("n1", seconds=6.0)
    for name in ("new", "newer"):
        core.applied(pod(name))
        new = core.server.cluster.storage.get(ObjectKey("Pod", "default", name))
        core.acknowledged(uid_of(new), int(version_of(new)))
        core.of_link("disconnected", core.links, seconds=0.3)
        assert site.states.of().syncs[uid_of(new)].version == int(version_of(new))
        core.connected(seconds=1.0)


def test_a_cloudcore_that_has_lost_a_node_notices_it_with_its_next_write(site: Site) -> None:
    """The node has connected to another one, which had the newest state; the end comes with the next change."""
    one, other = site.core("n1"), site.core()
    one.bee.run_for(10.0)
    other.connected(seconds=1.0)
    assert pods_in(other.down()) == []
    assert site.states.of().holder.cloudcore == "cloudcore-3"
    one.down()
    one.applied(pod("new"), seconds=6.0)
    assert "disconnected node/n1" in one.down()
    one.server.apply(pod("newer"))
    one.removed("node", "n1", seconds=30.0)
    assert site.states.of().holder.cloudcore == "cloudcore-3"


def test_who_has_lost_a_node_and_gets_it_back_knows_what_the_other_has_sent(site: Site) -> None:
    """The state was read when the loss was noticed; its version is known by then, so that it is not read again."""
    one, other = site.core("n1"), site.core()
    one.bee.run_for(10.0)
    other.connected(seconds=1.0)
    other.applied(pod("theirs"), seconds=6.0)
    one.applied(pod("new"), seconds=6.0)
    assert "disconnected node/n1" in one.down()
    one.connected(seconds=1.0)
    assert "delete node/n1/default/pod/theirs" in one.down(), "it is not in the objects of this one"


def test_who_claims_a_node_reads_what_another_has_written_since(site: Site) -> None:
    one, other = site.core("n1"), site.core()
    one.bee.run_for(6.0)
    one.applied(pod("new"), seconds=11.0)
    other.server.apply(*(pod(name, nodeName="n2") for name in ("a", "b", "c")))
    other.connected(seconds=1.0)
    assert "delete node/n1/default/pod/new" in other.down(), "it is not in the objects of the other, which are newer"


@pytest.mark.parametrize(("ahead", "claims"), [(5, False), (0, True), (-5, True), (3600, True)])
def test_a_slow_cloudcore_does_not_claim_a_node_that_has_connected_elsewhere_since(
    site: Site, ahead: int, claims: bool
) -> None:
    """A connection that seems to be an hour newer is one of a cloudcore with a wrong clock."""
    fast, slow = site.core(), site.core()
    now = int(slow.bee.clock.now())
    fast.of_link("connected", 1, at=now + ahead, seconds=1.0)
    slow.of_link("connected", 1, at=now, seconds=1.0)
    assert site.states.of().holder.cloudcore == (slow if claims else fast).database.cloudcore
    assert ("disconnected node/n1" in slow.down()) is not claims
    fast.applied(pod("new"), seconds=6.0)
    assert ("disconnected node/n1" in fast.down()) is claims


def test_a_node_without_a_state_is_claimed_when_it_connects(site: Site) -> None:
    """Another cloudcore can look for it at once, and not only after the next write of changed states."""
    site.states.objects.clear()
    site.core("n1")
    assert site.states.of().holder.cloudcore == "cloudcore-2"


@pytest.mark.parametrize("before", [5, 3600], ids=["seconds", "an-hour"])
def test_a_claim_that_could_not_be_written_is_made_with_the_next_write(site: Site, before: int) -> None:
    """The cloudcore of the former connection may have written meanwhile; what only that one knew counts. No clock is
    wrong only because the node stayed with it for long.
    """
    former, newest = site.core(), site.core()
    now = int(newest.bee.clock.now())
    former.of_link("connected", 1, at=now - before, seconds=6.0)
    newest.server.answers[PLURAL] = FakeExchange.break_off
    newest.of_link("connected", 1, at=now, seconds=1.0)
    former.applied(pod("short"), seconds=11.0)
    newest.server.answers[PLURAL] = site.states.serve
    newest.down()
    newest.applied(pod("new"), seconds=11.0)
    down = newest.down()
    assert "disconnected node/n1" not in down
    assert "delete node/n1/default/pod/short" in down
    assert site.states.of().holder == Holder(newest.database.cloudcore, now)


def test_a_state_that_somebody_has_deleted_is_made_again(site: Site) -> None:
    core = site.core()
    site.states.objects.clear()
    core.of_link("connected", 1, at=1005, seconds=1.0)
    assert site.states.of().holder == Holder(core.database.cloudcore, 1005)


def test_a_write_whose_answer_was_lost_ends_no_connection(site: Site) -> None:
    core = site.core("n1", seconds=6.0)
    core.down()
    site.states.loses_answers = True
    core.applied(pod("new"), seconds=6.0)
    core.applied(pod("newer"), seconds=6.0)
    site.states.loses_answers = False
    assert "disconnected node/n1" not in core.down(after=30.0)
    assert {"new", "newer"} <= {sync.key.name for sync in site.states.of().syncs.values()}


@pytest.mark.parametrize(("field", "value"), [("nodeUID", "v"), ("epoch", 1), ("objects", "x"), ("cloudcore", "other")])
def test_a_state_is_another_when_something_about_the_node_has_changed(field: str, value: Any) -> None:
    """The cloudcore is in each write, and is no reason for one."""
    obj = object_of("n1", "space", NodeState("u", 0), "", Holder("cloudcore", 1))
    changed = {**obj, "spec": {**obj["spec"], field: value}}
    assert (_hash(changed) != _hash(obj)) is (field != "cloudcore")


@pytest.mark.parametrize("status", [403, 404, 500])
def test_nodes_are_served_without_the_right_or_the_definition(site: Site, status: int) -> None:
    core = site.core()
    core.server.answers[PLURAL] = lambda exchange: exchange.answer(status, {"kind": "Status", "code": status})
    core.connected(seconds=120.0)
    assert core.server.closed == 0
    core.applied(pod("new"))
    assert "insert node/n1/default/pod/new" in core.down()


def test_a_node_that_registers_while_it_is_claimed_gets_everything(site: Site) -> None:
    """Its store may be new."""
    core = site.core()
    held: list[FakeExchange] = []
    core.server.answers[PLURAL] = held.append
    core.connected()
    core.asks("null/node/n1", "insert", node())
    assert pods_in(core.down()) == []
    core.server.answers[PLURAL] = site.states.serve
    for exchange in held:
        site.states.serve(exchange)
    assert {INSERT, "update node/n1/null/node/n1"} <= set(core.down(after=1.0))


def test_a_node_that_is_being_claimed_gets_its_list_of_pods_after_that(site: Site) -> None:
    """A pod that its former cloudcore has not noted may be deleted meanwhile: nobody would ever tell the node."""
    core = site.core()
    held: list[FakeExchange] = []
    core.server.answers[PLURAL] = held.append
    core.connected()
    options = {"fieldSelector": "spec.nodeName=n1"}
    call = ApiCall(verb="list", api_version="v1", plural="pods", options=options, node="n1")
    asked = core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
    answer = core.bee.future(EdgeController.name, asked)
    core.bee.run_for(1.0)
    core.server.remove("pod", "web")
    core.server.answers[PLURAL] = site.states.serve
    for exchange in held:
        site.states.serve(exchange)
    assert present(answer.get().content_as(ApiResult).object)["items"] == []


def test_a_node_that_is_being_claimed_is_not_answered_by_a_mirror_that_may_be_late(site: Site) -> None:
    """Its former cloudcore may have sent it the deletion."""
    core = site.core("n1")
    core.applied(configmap(), pod("reader", **USES), seconds=1.0)
    core.server.stop_watches()
    core.removed("cm", "settings")
    core.server.answers[PLURAL] = core.server.held.append
    core.connected(seconds=1.0)
    request = core.asks("default/configmap/settings", "query")
    core.bee.settle()
    assert core.answer_to(request).content["Err"]["ErrStatus"]["code"] == 404


def test_the_deletion_of_what_was_deleted_while_its_node_was_away_is_not_forgotten(site: Site) -> None:
    """Its version is unknown. A cloudcore whose watch is behind would send the object, or answer with it."""
    core = site.core("n1")
    core.applied(N1, configmap(), pod("reader", **USES), seconds=1.0)
    live = core.server.cluster.storage.get(SETTINGS)
    core.acknowledged(uid_of(live), int(version_of(live)))
    core.of_link("disconnected", 1, seconds=6.0)
    core.removed("cm", "settings")
    core.connected(seconds=1.0)
    assert "delete node/n1/default/configmap/settings" in core.down()
    core.acknowledged(uid_of(live), -1, is_delete=True)
    core.bee.run_for(11.0)
    assert site.states.of().syncs[uid_of(live)].deleted > int(version_of(live))


def test_a_list_that_has_waited_for_a_claim_is_answered_although_the_claim_is_lost(site: Site) -> None:
    """So is the next one: nothing waits for a claim that nobody makes any more."""
    fast, slow = site.core(), site.core()
    fast.of_link("connected", 1, at=1005, seconds=1.0)
    held: list[FakeExchange] = []
    slow.server.answers[PLURAL] = held.append
    slow.of_link("connected", 1, at=1000, seconds=1.0)
    options = {"fieldSelector": "spec.nodeName=n1"}
    call = ApiCall(verb="list", api_version="v1", plural="pods", options=options, node="n1")

    def ask() -> Future[Message]:
        asked = slow.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
        answer = slow.bee.future(EdgeController.name, asked)
        slow.bee.run_for(1.0)
        return answer

    slow.server.lists.clear()
    waiting = ask()
    assert slow.server.lists == []
    slow.server.answers[PLURAL] = site.states.serve
    for exchange in held:
        site.states.serve(exchange)
    assert "disconnected node/n1" in slow.down(after=1.0), "the claim is lost"
    for answer in (waiting, ask()):
        listed = present(answer.get().content_as(ApiResult).object)
        assert [each["metadata"]["name"] for each in listed["items"]] == ["web"]


def test_after_a_restore_while_cloudcore_was_away_no_version_counts(site: Site) -> None:
    for each in site.objects:
        each["metadata"]["resourceVersion"] = "1"
    core = site.core("n1", seconds=1.0)
    assert INSERT in core.down()
    core.bee.run_for(10.0)
    assert site.states.of().state.epoch == 1


def test_a_cloudcore_that_has_missed_a_restore_lists_all_again_before_it_serves_a_node(site: Site) -> None:
    """By its mirror, what was made since the restore does not exist: the node would be sent the deletion of that."""
    one, other = site.core("n1"), site.core()
    one.applied(pod("lost"))
    one.server.restore(site.objects)
    one.bee.run_for(9.0)
    one.server.apply(pod("new"))
    one.connected(seconds=11.0)
    assert site.states.of().state.epoch == 1
    other.server.cluster = one.server.cluster  # its watches stay silent
    other.connected(seconds=1.0)
    down = other.down()
    assert pods_in(down) == []
    assert down[-1] == "disconnected node/n1"
    other.connected(seconds=11.0)
    new, lost = "insert node/n1/default/pod/new", "delete node/n1/default/pod/lost"
    assert sorted(set(pods_in(other.down()))) == [lost, new, INSERT]
    assert site.states.of().state.epoch == 1, "both count the same epoch"


def test_a_claim_that_was_lost_does_not_hide_a_restore(site: Site) -> None:
    newest = site.core()
    newest.of_link("connected", 1, at=1005, seconds=6.0)
    newest.down()
    stored = site.states.objects["n1"]
    site.states.objects["n1"] = {
        **stored,
        "metadata": {**stored["metadata"], "resourceVersion": "70"},
        "spec": {**stored["spec"], "cloudcore": "other", "connectedAt": 1000, "epoch": 1},
    }
    newest.applied(pod("new"), seconds=6.0)
    assert newest.down()[-1] == "disconnected node/n1"


SYNCS = {f"u{number}": ObjectSync(ObjectKey("Pod", "default", f"p{number}"), number) for number in range(50)}


def test_of_a_node_that_has_not_registered_or_was_deleted_nothing_is_written(site: Site) -> None:
    """The cluster has collected its NodeState, and one without an owner would stay."""
    core = site.core("n1", "n2", seconds=6.0)
    core.removed("node", "n1")
    site.states.objects.clear()
    core.bee.run_for(30.0)
    assert site.states.objects == {}


def test_a_state_is_read_as_it_was_written() -> None:
    objects, left_out = packed(SYNCS)
    assert left_out == 0
    stored = read(json.loads(json.dumps(object_of("n1", "kubeedge", NodeState("u", 2), objects, Holder("c", 7.25)))))
    assert stored == StoredState(Holder("c", 7.25), NodeState("u", 2), SYNCS)
    earlier = object_of("n1", "kubeedge", NodeState("u", 2), objects, Holder("c", 7.25))
    del earlier["spec"]["connectedAtMilliseconds"]
    assert present(read(earlier)).holder == Holder("c", 7)
    assert "ownerReferences" not in object_of("n1", "kubeedge", NodeState(), "", Holder())["metadata"]


def test_a_version_that_no_database_takes_is_left_out() -> None:
    """Anybody who may write NodeStates would keep a cloudcore from serving the node."""
    objects, _ = packed({"huge": ObjectSync(ObjectKey("Pod", "default", "huge"), 1 << 63), **SYNCS})
    stored = read(object_of("n1", "kubeedge", NodeState("u", 2), objects, Holder()))
    assert present(stored).syncs == SYNCS


def test_a_state_fits_into_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods stay: the deletion of anything else is repaired by the next change."""
    monkeypatch.setattr(node_states, "MAX_BYTES", 1000)
    others = {f"s{number}": ObjectSync(ObjectKey("Secret", "default", f"{hash(number)}" * 9)) for number in range(500)}
    objects, left_out = packed({**others, **dict(list(SYNCS.items())[:20])})
    stored = present(read(object_of("n1", "kubeedge", NodeState(), objects, Holder())))
    assert len(objects) <= 1000
    assert left_out == len(others) + 20 - len(stored.syncs) > 0
    assert {f"u{number}" for number in range(20)} <= stored.syncs.keys()


def test_who_has_a_node_is_read_from_the_cluster(site: Site) -> None:
    """Of all nodes, or of one; a NodeState without a cloudcore, or with another name for it, is no answer."""
    first = site.core("n1", "n2")
    first.applied({**N1, "metadata": {"name": "n2"}}, seconds=6.0)
    second = site.core("n1", seconds=6.0)
    second.server.answers[PLURAL] = site.states.serve
    site.states.objects["n3"] = {"metadata": {"name": "n3"}, "spec": {"cloudcore": None}}
    assert first.cloudcores().nodes == {"n1": second.database.cloudcore, "n2": first.database.cloudcore}
    assert second.cloudcores("n2").nodes == {"n2": first.database.cloudcore}
    assert second.cloudcores("n9").nodes == {}


def test_states_are_read_page_by_page(site: Site) -> None:
    first = site.core("n1", "n2")
    first.applied({**N1, "metadata": {"name": "n2"}}, seconds=6.0)
    acknowledge(first)
    site.states.objects["n0"], site.states.page = {"metadata": {"name": "n0"}}, 1
    second = site.core("n1")
    assert second.cloudcores().nodes == {"n1": second.database.cloudcore, "n2": first.database.cloudcore}
    assert pods_in(second.down()) == []


def test_who_has_no_right_at_the_start_asks_for_no_state_and_writes_none(site: Site) -> None:
    def refuse(exchange: FakeExchange) -> None:
        asked.append(exchange.call.verb)
        exchange.answer(403, {"kind": "Status", "code": 403})

    asked: list[str] = []
    site.states.serve = refuse  # type: ignore[method-assign]
    core = site.core("n1", seconds=60.0)
    core.applied(pod("new"), seconds=60.0)
    assert core.cloudcores().nodes == {}
    assert asked == ["list"]
    assert "insert node/n1/default/pod/new" in core.down()


def test_without_the_right_nobody_is_known_to_have_a_node(site: Site) -> None:
    core = site.core("n1", seconds=6.0)
    core.server.answers[PLURAL] = lambda exchange: exchange.answer(403, {"kind": "Status", "code": 403})
    assert core.cloudcores().nodes == {}


def test_what_does_not_fit_is_reported_once_and_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = site.core("n1", seconds=6.0)
    monkeypatch.setattr(node_states, "MAX_BYTES", 20)
    counters = core.remote.node_states
    core.applied(pod("second"), seconds=11.0)
    assert counters.left_out == {"n1": 3}, "the Node and both pods"
    assert counters.writes > 0
    assert counters.failures == 0
    (line,) = (each.getMessage() for each in caplog.records if "do not fit" in each.getMessage())
    assert line.startswith("node n1: it has 3 objects, and 3 of them")
    monkeypatch.undo()
    core.applied(pod("third"), seconds=11.0)
    assert counters.left_out == {}


def test_a_write_that_fails_is_counted_and_a_conflict_is_not(site: Site) -> None:
    core = site.core("n1", seconds=6.0)
    core.server.answers[PLURAL] = lambda exchange: exchange.answer(409, {"kind": "Status", "code": 409})
    core.applied(pod("second"), seconds=6.0)
    assert core.remote.node_states.failures == 0
    core.server.answers[PLURAL] = lambda exchange: exchange.answer(403, {"kind": "Status", "code": 403})
    core.applied(pod("third"), seconds=30.0)
    assert core.remote.node_states.failures > 0
    core.server.answers[PLURAL] = site.states.serve
    core.bee.run_for(11.0)
    assert len(site.states.of().syncs) == len(core.database.object_syncs_of("n1")), (
        "it is written when that is possible"
    )


def test_node_states_are_in_the_namespace_of_the_leases(site: Site) -> None:
    site.states.namespace = "edge"
    site.states.objects.clear()
    core = site.core("n1")
    core.applied(pod("second"), seconds=6.0)
    assert site.states.objects["n1"]["metadata"]["namespace"] == "edge"


BAD: list[Any] = [
    None,
    7,
    {"epoch": "x"},
    {"objects": "%"},
    {"objects": "AAAA"},
    {"objects": 7},
    {"objects": "eJw="},
    {"epoch": 1 << 31},
]


@pytest.mark.parametrize("spec", BAD)
def test_an_unreadable_state_does_not_count(spec: Any) -> None:
    assert read({"metadata": {"name": "n1"}, "spec": spec}) is None


def lone_state(send: Callable[[ApiCall, Answered], None]) -> ClusterState:
    """The states of one cloudcore, which knows of no node."""
    cluster = SimpleNamespace(state_namespace="edge", node_states=SimpleNamespace(left_out={}, writes=0, failures=0))
    known = Mock(cloudcore="here", of=lambda _: (NodeState(), {}))
    module = SimpleNamespace(clock=Simulation().clock)
    parts: Any = (cluster, SimpleNamespace(send=send), module, Mock(), Mock(), known, Mock())
    return ClusterState(*parts)


def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, told = list[str](), list[Mapping[str, str]]()

    def send(call: ApiCall, then: Answered) -> None:
        asked.append(call.verb)
        then(ApiResult({"metadata": {"continue": "more"}}))

    monkeypatch.setattr(state, "_MAX_PAGES", 3)
    lone_state(send).holders("", told.append)
    assert (asked, told) == (["list"] * 4, [{}])


def test_who_had_a_node_whose_state_cannot_be_read_any_more_does_not_count() -> None:
    """Otherwise its connection would be ended, as if it had gone there since."""
    states, told = lone_state(lambda call, then: then(ApiResult(call.body))), list[str]()
    there = object_of("n1", "edge", NodeState("u"), "", Holder("there", states._module.clock.now()))
    states._adopt("n1", there)
    states.claim("n1", 1.0, lambda: told.append("claimed"), lambda: told.append("superseded"))
    states._adopt("n1", {**there, "spec": 7})
    states.claim("n1", 1.0, lambda: told.append("claimed"), lambda: told.append("superseded"))
    assert told == ["superseded", "claimed"]


def test_a_change_while_a_state_is_being_written_is_written_after_it(site: Site) -> None:
    """The API server answers slowly, and a node acknowledges something meanwhile."""
    core, waiting = site.core("n1"), list[FakeExchange]()
    core.bee.run_for(11.0)
    core.applied(pod("first"))
    core.server.answers[PLURAL] = waiting.append
    core.bee.run_for(6.0)
    assert len(waiting) == 1
    core.applied(pod("second"), seconds=6.0)
    core.server.answers[PLURAL] = site.states.serve
    assert len(waiting) == 1, "one write of a node at a time"
    site.states.serve(waiting.pop())
    core.bee.run_for(6.0)
    uids = {uid_of(core.server.cluster.storage.get(ObjectKey("Pod", "default", name))) for name in ("first", "second")}
    assert uids <= site.states.of().syncs.keys()


def _books(core: ClusterController) -> set[str]:
    """The nodes of which something is kept in memory."""
    module = present(core.bee.hive.slot(EdgeController.name).running).ref._actor_weakref()
    assert isinstance(module, EdgeController)
    state = present(module._client._state)
    books = (state._written_specs, state._versions, state._holders, state._connected_at, state._owned, state._changed)
    return {node for book in books for node in book}


def test_nothing_is_kept_of_nodes_that_were_deleted_or_never_registered(site: Site) -> None:
    """Many names that come and go do not grow cloudcore."""
    core = site.core("n1")
    core.bee.run_for(11.0)
    assert _books(core) == {"n1"}
    for number in range(20):
        name = f"stranger-{number}"
        core.connected(name, seconds=1.0)
        assert name in _books(core)
        core.of_link("disconnected", core.links, name, seconds=6.0)
    assert _books(core) == {"n1"}
    core.of_link("disconnected", 1, seconds=6.0)
    assert _books(core) == {"n1"}, "it comes back"
    core.removed("node", "n1")
    site.states.objects.clear()
    core.bee.run_for(1300.0)
    assert _books(core) == set()
    core.applied(N1)
    core.connected(seconds=6.0)
    assert site.states.of().holder.cloudcore == "cloudcore-2"
