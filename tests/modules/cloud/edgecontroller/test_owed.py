"""What a node is owed: what is sent to it again, what has to be confirmed first, and what not yet."""

from collections.abc import Callable

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.downstream.sent_versions import SentVersions
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.controller import WEB, AllMirrored
from tests.modules.cloud.objects import configmap, pod

SETTINGS = ObjectKey("ConfigMap", "default", "settings")


class Owed:
    """Node n1, what it is sent, and what is asked of the API server, which answers nothing before `confirm`."""

    def __init__(self, **syncs: ObjectSync) -> None:
        self.syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
        self.syncs.node_connected("n1", syncs)
        self.storage = Cluster(Simulation().clock).storage
        self._sent: list[DownstreamMessage] = []
        self.asked: list[str] = []
        self.downstream = DownstreamController(
            self.storage, self.syncs, self._sent.append, lambda _node, _key: True, AllMirrored(), NodeWatches(),
            confirm=self._confirm, check=lambda _key, uid: self.asked.append(uid),
        )  # fmt: skip

    def _confirm(self, _key: ObjectKey, uid: str, then: Callable[[], None]) -> None:
        self.asked.append(uid)
        self.confirm = then

    def make(self, obj: JsonObject, uid: str) -> JsonObject:
        """Store an object."""
        made = self.storage.create(obj, uid)
        for event in self.storage.drain_events():
            self.downstream.handle_event(event)
        return made

    def remove(self, key: ObjectKey) -> int:
        """Delete an object, and return the version of its deletion."""
        self.storage.remove(key)
        (event,) = self.storage.drain_events()
        version = event.new["metadata"]["resourceVersion"]
        self.downstream.newest.observe(key.kind, version)
        self.downstream.handle_event(event)
        return int(version)

    def sent(self) -> list[str]:
        """Return what was sent since the last look."""
        found = [f"{each.operation} {each.uid}" for each in self._sent]
        self._sent.clear()
        return found

    def look(self) -> list[str]:
        """Look for what has not been acknowledged, and return what is sent again."""
        self.downstream.resend_unacknowledged("n1")
        return self.sent()


def test_the_version_of_a_deletion_stays_when_it_is_sent_again() -> None:
    sent = SentVersions()
    for version in (7, 0, 5):
        sent.record_deletion("n1", "u", version)
    assert sent.deletion_of("n1", "u") == 7


def test_what_was_sent_just_now_to_a_restarted_node_is_not_sent_again_at_the_next_look() -> None:
    owed = Owed()
    owed.make(pod(), "u")
    assert owed.sent() == ["insert u"]
    assert owed.look() == []
    owed.downstream.connection_began("n1")
    owed.downstream.node_connected("n1")
    assert len(owed.sent()) == 1
    assert owed.look() == []
    assert len(owed.look()) == 1


def test_an_object_that_no_watch_has_told_of_is_looked_for_at_the_second_look() -> None:
    owed = Owed(u=ObjectSync(WEB, 9))
    owed.downstream.newest.listed("Pod", "5")
    asked = [owed.look() or [*owed.asked] for _ in range(2)]
    assert asked == [[], ["u"]]


def test_a_replaced_object_is_kept_in_mind_until_the_node_has_its_successor() -> None:
    """That may be deleted before: then the node is sent the deletion of the first."""
    owed = Owed(a=ObjectSync(SETTINGS, 5), b=ObjectSync(SETTINGS, sent=7))
    made = owed.make(configmap(), "b")
    for _ in range(2):
        owed.look()
    assert "a" in owed.syncs.of("n1")
    owed.syncs.acknowledged("n1", "b", int(made["metadata"]["resourceVersion"]))
    for _ in range(2):
        owed.look()
    assert "a" not in owed.syncs.of("n1")


@pytest.mark.parametrize(("existed_at", "at_once"), [(1, ["delete x", "insert y"]), (9, [])])
def test_the_next_pod_of_a_name_waits_until_the_end_of_one_that_may_be_newer_is_confirmed(
    existed_at: int, at_once: list[str]
) -> None:
    """A pod that the node's watch has passed over must not be ended by an older one."""
    owed = Owed(x=ObjectSync(WEB, existed_at))
    for _ in range(2):
        owed.look()
    assert (owed.asked, owed.sent()) == (["x"], [])
    owed.make(pod(), "y")
    assert owed.sent() == at_once
    owed.confirm()
    assert at_once + owed.sent() == ["delete x", "insert y"]


def test_a_pod_whose_name_is_told_to_be_another_pods_is_confirmed_to_have_ended() -> None:
    """Another cloudcore has sent it, perhaps its deletion, too: with the newest version that it knew."""
    owed = Owed(x=ObjectSync(WEB, sent=9))
    owed.downstream.newest.listed("Pod", "5")
    owed.downstream.stale.records_loaded("n1")
    owed.make(pod(), "y")
    assert owed.sent() == []
    owed.downstream.newest.observe("Pod", "9")
    owed.look()
    assert (owed.asked, owed.sent()) == (["x"], [])
    owed.confirm()
    assert owed.sent() == ["delete x", "insert y"]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_object_whose_deletion_another_cloudcore_has_sent_waits_for_the_watch(*, is_deleted: bool) -> None:
    """The node may have deleted it, and the acknowledgement be lost with that cloudcore."""
    first = Owed()
    live = int(first.make(pod(), "u")["metadata"]["resourceVersion"])
    first.syncs.acknowledged("n1", "u", live)
    deletion = first.remove(WEB)
    assert first.sent() == ["insert u", "delete u"]
    other = Owed(**first.syncs.of("n1"))
    other.downstream.newest.listed("Pod", str(live))
    other.make(pod(), "u")
    other.downstream.node_connected("n1")
    assert other.look() == [], "its watch has not told of the deletion"
    if is_deleted:
        assert (other.remove(WEB), other.sent()) == (deletion, ["delete u"])
    else:
        other.downstream.newest.observe("Pod", str(deletion))
        assert other.look() == ["insert u"]


def test_a_deletion_that_is_acknowledged_after_a_restart_is_kept_with_its_version() -> None:
    first = Owed()
    first.make(pod(), "u")
    deletion = first.remove(WEB)
    restarted = Owed(**first.syncs.of("n1"))
    restarted.downstream.deletion_acknowledged("n1", "u")
    assert restarted.syncs.deletion_of("n1", "Pod") == deletion
