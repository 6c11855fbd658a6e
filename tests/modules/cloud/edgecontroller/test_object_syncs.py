"""What nodes have acknowledged of the objects that they were sent."""

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.object_sync import ObjectSync

KEY = ObjectKey("Pod", "default", "web")


def test_the_versions_of_an_object_on_a_node() -> None:
    written: list[tuple[str, str, int | None]] = []
    syncs = ObjectSyncs(lambda node, uid, sync: written.append((node, uid, sync.number if sync else None)))
    syncs.node_connected("n1", {})
    syncs.sending("n1", "u", KEY, 4)
    for version in (5, 5, 0):
        syncs.acknowledged("n1", "u", version)
    syncs.sending("n1", "u", KEY, 6)
    assert written == [("n1", "u", -4), ("n1", "u", 5)], "what the node has is not forgotten when it is sent more"
    needed = [version for version in (0, 4, 5, 6) if syncs.is_needed("n1", "u", version)]
    assert needed == [4, 6], "a version is lower after a restore of etcd"
    syncs.node_restarted("n1", {"u": 5})
    assert syncs.of("n1")["u"].version == 5, "it was sent to this process"
    syncs.node_restarted("n1", {"u": 6})
    assert syncs.of("n1")["u"].version == 0
    syncs.deleted("n1", "u")
    syncs.deleted("n1", "u")
    assert written[2:] == [("n1", "u", -5), ("n1", "u", None)], "without a version it would count as deleted"


def test_an_object_that_is_sent_after_its_deletion_is_stored_with_its_version() -> None:
    """A node is told that a pod is gone which then comes: its watch was behind."""
    written: list[int] = []
    syncs = ObjectSyncs(lambda *change: written.append(change[2].number if change[2] else 0))
    syncs.node_connected("n1", {})
    for version in (0, 0, 7, 9):
        syncs.sending("n1", "u", KEY, version)
    assert written == [0, -7]
    syncs.acknowledged("n1", "u", 9)
    syncs.unacknowledge("n1", "u")
    assert written == [0, -7, 9, -9]


def test_both_versions_are_one_number() -> None:
    for sync in (ObjectSync(KEY), ObjectSync(KEY, 5), ObjectSync(KEY, sent=5)):
        assert ObjectSync.from_number(KEY, sync.number) == sync


def test_of_a_node_that_is_not_connected_here_nothing_is_written() -> None:
    written: list[object] = []
    syncs = ObjectSyncs(lambda *change: written.append(change))
    syncs.node_connected("n1", {})
    syncs.node_disconnected("n1")
    syncs.sending("n1", "u", KEY)
    syncs.acknowledged("n1", "u", 5)
    syncs.deleted("n1", "u")
    assert (written, syncs.nodes(), syncs.of("n1")) == ([], [], {})
