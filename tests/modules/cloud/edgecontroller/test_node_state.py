"""What nodes have acknowledged belongs to their Node objects, and to the epoch of the cluster's versions."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, key_of, uid_of, version_of
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_sync import Epoch, NodeState, ObjectSync
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.objects import configmap, in_memory, node, pod

N1 = {"kind": "Node", "apiVersion": "v1", **node()}
INSERT = "insert node/n1/default/pod/web"
DELETED = "delete node/n1/null/node/n1"


class Site:
    """A cluster, and the cloudcores that work with it one after the other."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "cloud.db"
        self._starts = count()
        """Seeds: no uid comes twice."""
        self.objects: list[Any] = []
        """The cluster's objects, between two cloudcores."""
        self.server: ClusterServer

    @contextmanager
    def core(self, *nodes: str) -> Iterator[ClusterController]:
        """Runs cloudcore, with nodes that connect immediately."""
        with ExitStack() as stack:
            bee = stack.enter_context(Harness(next(self._starts)))
            database = Database(str(self._path), "cloudcore", stores_objects=False)
            stack.callback(database.close)
            self.server = ClusterServer(bee.clock)
            self.server.restore(self.objects)
            core = ClusterController(bee, self.server, database, nodes)
            yield core
            bee.run_for(1.0)
            self.objects = self.server.objects()

    def live(self, key: ObjectKey = WEB) -> Any:
        """An object of the cluster."""
        return self.server.cluster.storage.get(key)

    def acknowledge(self, core: ClusterController) -> None:
        """n1 acknowledges the pod."""
        core.acknowledged(uid_of(self.live()), int(version_of(self.live())))
        core.down()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With a Node and a pod, which the node has acknowledged."""
    made = Site(tmp_path)
    with made.core("n1") as core:
        core.applied(N1, pod())
        made.acknowledge(core)
    return made


def stored(core: ClusterController) -> tuple[dict[str, ObjectSync], dict[str, NodeState]]:
    """The rows of n1, and of all nodes."""
    database = core.database
    database.begin()
    found = database.object_syncs_of("n1"), database.node_states()
    database.abandon()
    return found


def sync_of(key: ObjectKey, version: int, *, is_acknowledged: bool) -> ObjectSync:
    """What a cloudcore has stored of an object that it has sent."""
    return ObjectSync(key, version) if is_acknowledged else ObjectSync(key, sent=version)


def pods_in(sent: list[str]) -> list[str]:
    """The messages about pods."""
    return [each for each in sent if "/pod/" in each]


def test_acknowledged_objects_are_not_sent_again(site: Site) -> None:
    """The Node is the same."""
    with site.core("n1") as core:
        assert pods_in(core.down(after=60.0)) == []


def test_a_deletion_that_was_not_acknowledged_before_a_kill_is_sent_again(site: Site) -> None:
    """What cloudcore has sent is in its database before it goes out."""
    sent = {"delete node/n1/default/pod/web", "delete node/n1/default/configmap/settings"}
    with site.core("n1") as core:
        core.applied(pod("reader", **USES), configmap())
        core.removed("pod", "web")
        core.removed("cm", "settings")
        assert sent <= {*core.down()}
        core.applied(pod("later"))  # so that the versions of the cluster do not go back
    with site.core("n1") as other:
        assert sent <= {*other.down(after=1.0)}
        assert sent <= {*other.down(after=20.0)}, "until they are acknowledged"


def test_a_node_that_was_made_again_while_cloudcore_was_away_gets_every_pod(site: Site) -> None:
    """Its machine may be another. The rows of the former Node are gone."""
    with site.core() as core:
        core.server.apply(configmap())
    former = site.objects
    site.objects = [each for each in former if each["kind"] != "Node"]
    made_again = {**next(each for each in former if each["kind"] == "Node")}
    made_again["metadata"] = {**made_again["metadata"], "uid": "another"}
    site.objects.append(made_again)
    with site.core("n1") as core:
        assert INSERT in core.down()
        syncs, states = stored(core)
        assert states["n1"].uid == "another"
        assert {each.version for each in syncs.values()} == {0}


def test_a_node_that_is_made_again_while_cloudcore_runs_gets_every_pod(site: Site) -> None:
    """cloudhub ends its connection with the deletion; over the next one everything comes."""
    with site.core("n1") as core:
        core.server.remove("node", "n1")
        core.applied(N1)
        assert "delete node/n1/null/node/n1" in core.down()
        core.of_link("disconnected", core.links)
        core.connected()
        assert INSERT in core.down()
        assert stored(core)[1]["n1"].uid == site.live(ObjectKey("Node", "", "n1"))["metadata"]["uid"]


def test_a_deletion_owed_to_the_former_node_is_not_owed_to_the_new_one(site: Site) -> None:
    site.objects = [each for each in site.objects if each["kind"] not in ("Node", "Pod")]
    with site.core() as core:
        core.server.apply(N1)
        core.connected()
        assert pods_in(core.down()) == []


def test_the_state_of_a_node_that_was_deleted_while_cloudcore_was_away_is_removed(site: Site) -> None:
    """At the second look: the cluster may be behind another cloudcore at the first."""
    site.objects = [each for each in site.objects if each["kind"] != "Node"]
    with site.core() as core:
        assert stored(core)[1].keys() == {"n1"}
        core.bee.run_for(601.0)
        assert stored(core) == ({}, {})


def test_nothing_is_deleted_on_a_node_that_comes_from_a_cloudcore_with_a_newer_epoch(site: Site) -> None:
    """It has seen a restore of etcd, and pods of after it, of which the watch here is still to tell (simulation, state,
    seed 52027).
    """
    key = ObjectKey("Pod", "default", "later")
    with site.core() as core:
        core.server.hold_watches()
        core.server.apply(pod("later"))
        later, database = site.live(key), core.database
        database.begin()
        database.put_object_sync("n1", uid_of(later), ObjectSync(key, int(version_of(later))))
        state, epoch = database.node_state_of("n1"), database.epoch()
        database.put_node_state("n1", NodeState(state.uid, epoch.number + 1))
        database.put_epoch(Epoch(epoch.number + 1, epoch.newest))
        database.commit(1)
        core.connected(seconds=30.0)
        core.connected(seconds=1.0)
        sent = core.down()
        assert "disconnected node/n1" in sent, "it has to wait for the lists"
        assert not [line for line in sent if line.startswith("delete")]
        core.removed("pods", "later", seconds=1.0)
        assert "delete node/n1/default/pod/later" in core.down()


def test_a_node_that_was_deleted_while_away_gets_the_deletion_once(site: Site) -> None:
    """cloudhub ends its connection for it, as KubeEdge's does."""
    site.objects = [each for each in site.objects if each["kind"] != "Node"]
    with site.core("n1") as core:
        assert DELETED in core.down()
        core.connected(seconds=30.0)
        assert DELETED not in core.down()


def test_a_node_does_not_get_a_deletion_that_only_the_mirror_has_seen(site: Site) -> None:
    """It was made again, and has registered with another cloudcore, since the watch told the last change."""
    with site.core() as core:
        watches = core.server.hold_watches()
        database = core.database
        database.begin()
        database.put_node_state("n2", NodeState("u-n2", 0))
        database.commit(1)
        core.server.apply({**N1, "metadata": {"name": "n2"}})
        core.connected("n2", seconds=30.0)
        assert "delete node/n2/null/node/n2" not in core.down()
        core.server.go_on(watches)


def test_a_node_that_has_just_registered_again_does_not_get_the_deletion_of_its_former_node(site: Site) -> None:
    """The API server has answered before, and the watch tells of the new Node later (simulation, all, seed 111)."""
    site.objects = [each for each in site.objects if each["kind"] != "Node"]
    with site.core() as core:
        watches = core.server.hold_watches()
        core.server.hold("nodes")
        core.connected()
        core.server.answers.clear()
        core.asks("null/node/n1", "insert", node())
        asked = [exchange for exchange in core.server.held if exchange.call.verb == "get"]
        assert asked
        for exchange in asked:
            exchange.answer(404, {"kind": "Status", "code": 404})
        assert DELETED not in core.down(after=1.0)
        core.server.go_on(watches)


def test_a_recreated_node_does_not_get_the_deletion_of_the_former_one(site: Site) -> None:
    site.objects = [each for each in site.objects if each["kind"] != "Node"]
    with site.core() as core:
        core.server.apply(N1)
        core.connected(seconds=30.0)
        assert DELETED not in core.down()


def test_the_state_of_a_node_that_comes_between_the_looks_stays(site: Site) -> None:
    former, site.objects = site.objects, [each for each in site.objects if each["kind"] != "Node"]
    with site.core() as core:
        core.bee.run_for(1.0)
        core.server.restore(former)
        core.bee.run_for(1300.0)
        assert stored(core)[1].keys() == {"n1"}


def test_state_of_before_the_uids_belongs_to_the_present_node(site: Site) -> None:
    """An earlier cloudcore deleted it with its Node."""
    with site.core() as core:
        database = core.database
        database.begin()
        syncs = database.object_syncs_of("n1")
        database.forget_node("n1")
        for uid, sync in syncs.items():
            database.put_object_sync("n1", uid, sync)
        database.commit(1)
    with site.core() as core:
        assert stored(core)[1]["n1"].uid != ""
        core.connected()
        assert pods_in(core.down()) == []


@pytest.mark.parametrize(("has_started", "is_acknowledged"), [(False, True), (True, True), (False, False)])
def test_a_pod_that_the_watch_has_not_delivered_yet_is_not_deleted(
    site: Site, *, has_started: bool, is_acknowledged: bool
) -> None:
    """Another cloudcore has sent it, and then the node came here (simulation, state, seeds 31026 and 31070), or has
    started here with an empty store, and registers (seed 32026), or has not acknowledged it yet (pair, seed 31183).
    """
    key = ObjectKey("Pod", "default", "later")
    with site.core() as core:
        watches = core.server.hold_watches()
        core.server.apply(pod("later"))
        later, database = site.live(key), core.database
        version = int(version_of(later))
        database.begin()
        database.put_object_sync("n1", uid_of(later), sync_of(key, version, is_acknowledged=is_acknowledged))
        database.commit(1)
        core.connected()
        if has_started:
            core.asks("null/node/n1", "insert", node())
        assert set(pods_in(core.down(after=30.0))) == ({INSERT} if has_started else set())
        core.server.go_on(watches)
        assert "delete node/n1/default/pod/later" not in core.down(after=30.0)
        core.removed("pod", "later", seconds=30.0)
        assert "delete node/n1/default/pod/later" in core.down()


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_pod_that_came_and_went_while_the_watch_was_behind_is_deleted(site: Site, *, is_acknowledged: bool) -> None:
    """As soon as the watch has told that."""
    key = ObjectKey("Pod", "default", "later")
    with site.core() as core:
        watches = core.server.hold_watches()
        core.server.apply(pod("later"))
        later, database = site.live(key), core.database
        core.server.remove("pod", "later")
        database.begin()
        sync = sync_of(key, int(version_of(later)), is_acknowledged=is_acknowledged)
        database.put_object_sync("n1", uid_of(later), sync)
        database.commit(1)
        core.connected()
        core.server.go_on(watches)
        assert "delete node/n1/default/pod/later" in core.down(after=30.0)


def sent_elsewhere(core: ClusterController, *objects: Any) -> None:
    """Another cloudcore has sent n1 objects, which n1 has acknowledged."""
    core.database.begin()
    for each in objects:
        sync = ObjectSync(key_of(each), int(version_of(each)))
        core.database.put_object_sync("n1", uid_of(each), sync)
    core.database.commit(1)


def test_an_object_whose_successor_a_node_has_is_neither_sent_nor_deleted(site: Site) -> None:
    """The watch has told neither that it was deleted nor that there is another one of its name (simulation, state,
    seed 31151).
    """
    key = ObjectKey("ConfigMap", "default", "settings")
    with site.core() as core:
        core.applied(configmap(a="1"), pod("reader", **USES))
        watches = core.server.hold_watches()
        core.server.apply(configmap(a="2"))
        former = site.live(key)
        core.server.remove("configmap", "settings")
        core.server.apply(configmap(a="3"))
        sent_elsewhere(core, former, site.live(key))
        core.connected(seconds=30.0)
        (watch,) = (one for one in watches if one.call.plural == "configmaps")
        watch.tell("MODIFIED", former)
        core.bee.run_for(30.0)
        last = {**former["metadata"], "resourceVersion": str(int(version_of(former)) + 1)}
        watch.tell("DELETED", {**former, "metadata": last})
        assert not [each for each in core.down(after=30.0) if "configmap" in each]
        core.server.go_on(watches)
        assert not [each for each in core.down(after=30.0) if "configmap" in each], "it has the present one"
        assert [sync.key for sync in stored(core)[0].values()].count(key) == 1
        core.removed("configmap", "settings")
        assert core.down() == ["delete node/n1/default/configmap/settings"]


def test_a_pod_whose_successor_a_node_has_is_deleted_there(site: Site) -> None:
    """Nodes delete pods by uid."""
    with site.core() as core:
        former, watches = site.live(), core.server.hold_watches()
        core.server.remove("pod", "web")
        core.server.apply(pod())
        sent_elsewhere(core, site.live())
        core.connected()
        (watch,) = (one for one in watches if one.call.plural == "pods")
        last = {**former["metadata"], "resourceVersion": str(int(version_of(site.live())) - 1)}
        watch.tell("DELETED", {**former, "metadata": last})
        core.bee.settle()
        (deletion,) = [each for each in core.unasked() if "/pod/" in each.route.resource]
        assert (deletion.route.operation, deletion.content["metadata"]["uid"]) == ("delete", uid_of(former))


@pytest.mark.parametrize("has_former", [False, True])
def test_what_a_node_has_stays_known_while_the_mirror_has_not_been_told_of_its_node_object(
    site: Site, *, has_former: bool
) -> None:
    """Its Node was made again, and it has got all from another cloudcore; a watch that has told at most the deletion of
    the former one is not believed, at no look of this cloudcore either.
    """
    with site.core() as core:
        if not has_former:
            core.removed("node", "n1")
        watches = core.server.hold_watches()
        core.server.hold("nodes")
        if has_former:
            core.server.remove("node", "n1")
        core.server.apply(N1)
        present = site.live(ObjectKey("Node", "", "n1"))
        core.database.begin()
        core.database.put_node_state("n1", NodeState(uid_of(present), 0))
        core.database.commit(1)
        sent_elsewhere(core, present, site.live())
        core.bee.run_for(1300.0)
        core.connected()
        assert [each for each in core.down() if INSERT in each or DELETED in each] == []
        core.server.release()
        core.server.go_on(watches)
        assert core.down(after=30.0) == []
        syncs, states = stored(core)
        assert states == {"n1": NodeState(uid_of(present), 0)}
        assert {uid: sync.version for uid, sync in syncs.items()} == {
            uid_of(each): int(version_of(each)) for each in (present, site.live())
        }


def test_an_equal_version_of_another_epoch_is_not_held(site: Site) -> None:
    """etcd was restored while cloudcore was away: its versions went back, and this one was given a second time. What a
    node has deleted before is no object that it has.
    """
    with site.core("n1") as core:
        core.applied(pod("later"))
        later = site.live(ObjectKey("Pod", "default", "later"))
        core.acknowledged(uid_of(later), int(version_of(later)))
        deleted_elsewhere(core, {**later, "metadata": {**later["metadata"], "uid": "gone"}}, 3)
    version = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in site.objects}["web"]
    site.objects = [each for each in site.objects if each["metadata"]["name"] in ("n1", "web")]
    with site.core("n1") as core:
        core.bee.run_for(9.0)
        assert version_of(site.live()) == version
        assert INSERT in core.down()
        syncs, states = stored(core)
        assert states["n1"].epoch == 1
        assert "gone" not in syncs
        site.acknowledge(core)
        assert "default/pod/web" not in str(core.down(after=60.0))


def test_messages_during_a_restore_wait_until_all_is_listed_again(site: Site) -> None:
    """A node that connects would get objects of before the restore."""
    with site.core("n1") as core:
        backup = core.server.objects()
        core.applied(configmap(), pod("later"))
        core.server.hold("csidrivers")
        core.server.restore(backup)
        core.bee.run_for(9.0)
        core.down()
        core.connected()
        assert core.down() == []
        core.server.release()
        assert INSERT in core.down(after=1.0)


def test_an_epoch_ends_once_and_never_without_a_cluster() -> None:
    ended: list[int] = []
    database = in_memory()
    database.begin()
    epochs = Epochs(database, lambda: ended.append(epochs.number))
    epochs.load()
    epochs.record(70)
    assert database._message.epoch is None, "the API server is the embedded one"
    assert [epochs.listed(version) for version in ("50", "opaque", "60")] == [False] * 3
    epochs.record(70)
    assert epochs.listed("65")
    assert (ended, epochs.listed("66")) == ([1], False)
    epochs.went_back()
    assert ended == [1, 2]
    database.put_epoch(Epoch(5, 1))
    database.commit(1)
    database.begin()
    epochs.went_back()
    assert epochs.number == 5, "another cloudcore has noticed it before"
    database.abandon()
    database.close()


def test_an_epoch_that_was_read_in_one_node_counts_for_any_next_node() -> None:
    """States of nodes that have been away are of earlier epochs."""
    database = in_memory()
    database.begin()
    ended: list[int] = []
    epochs = Epochs(database, lambda: ended.append(epochs.number))
    epochs.listed("60")
    for number in (3, 0):
        epochs.read_elsewhere(number)
        assert epochs.is_over
    epochs.resume(Epoch(3, 50))
    assert (epochs.number, epochs.is_over, ended) == (3, False, [])
    epochs.resume(Epoch(2, 90))
    assert (epochs.number, ended) == (3, []), "it is over already"
    epochs.resume(Epoch(3, 90))
    assert (epochs.number, ended) == (4, [4])
    database.abandon()
    database.close()


def deleted_elsewhere(core: ClusterController, obj: Any, version: int) -> None:
    """n1 has acknowledged the deletion of an object to another cloudcore."""
    core.database.begin()
    core.database.put_object_sync("n1", uid_of(obj), ObjectSync(key_of(obj), deleted=version))
    core.database.commit(1)


def test_an_object_whose_deletion_a_node_has_acknowledged_elsewhere_is_not_sent_again(site: Site) -> None:
    """Nor answered, while the watch has not told of the deletion (simulation, state, seed 31151)."""
    key = ObjectKey("ConfigMap", "default", "settings")
    with site.core() as core:
        core.applied(configmap(a="1"), pod("reader", **USES))
        watches = core.server.hold_watches()
        former = site.live(key)
        core.server.remove("configmap", "settings")
        deleted_elsewhere(core, former, core.server.cluster.storage.version)
        core.connected(seconds=30.0)
        assert not [each for each in core.down() if "configmap" in each]
        request = core.asks("default/configmap/settings", "query")
        core.bee.settle()
        assert core.answer_to(request).content["Err"]["ErrStatus"]["code"] == 404
        core.server.go_on(watches)
        assert "insert node/n1/default/configmap/settings" not in core.down(after=30.0)


def test_what_is_older_than_an_unknown_deletion_is_sent_when_the_watch_has_told_of_that(site: Site) -> None:
    """It may have been deleted, too. What is newer is sent at once."""
    other = configmap()
    other["metadata"]["name"] = "other"
    with site.core() as core:
        core.applied(configmap(a="1"), other, pod("reader", **USES))
        watches = core.server.hold_watches()
        gone = site.live(ObjectKey("ConfigMap", "default", "other"))
        core.server.remove("configmap", "other")
        deleted_elsewhere(core, gone, core.server.cluster.storage.version)
        core.connected(seconds=30.0)
        sent = core.down()
        assert [each for each in sent if each.endswith("/pod/reader")], "of pods nothing is unknown"
        assert not [each for each in sent if "configmap" in each]
        core.server.go_on(watches)
        assert "insert node/n1/default/configmap/settings" in core.down(after=20.0)
