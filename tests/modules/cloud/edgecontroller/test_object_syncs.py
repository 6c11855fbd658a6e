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
    for version in (0, 12, 1 << 62):
        syncs.deleting("n1", "u", version)
    assert written == [0, -7, 9, -9, -12, -12]


def test_a_row_takes_the_key_of_the_object_that_is_sent() -> None:
    """A damaged row has another key, under which no object is found: its deletion would be sent again and again."""
    rows: dict[str, ObjectSync | None] = {}
    syncs = ObjectSyncs(lambda _node, uid, sync: rows.update({uid: sync}))
    damaged = ObjectKey("Damaged", "default", "web")
    syncs.node_connected("n1", {"u": ObjectSync(damaged, 5)})
    syncs.sending("n1", "u", damaged)
    syncs.sending("n1", "u", KEY)
    assert not rows, "a deletion may name any object"
    syncs.sending("n1", "u", KEY, 6)
    assert rows == {"u": ObjectSync(KEY, sent=6)}


def test_all_versions_are_one_number() -> None:
    highest = (1 << 62) - 1
    for sync in (
        *(ObjectSync(KEY), ObjectSync(KEY, 5), ObjectSync(KEY, sent=5)),
        *(ObjectSync(KEY, deleted=5), ObjectSync(KEY, highest), ObjectSync(KEY, sent=highest)),
        ObjectSync(KEY, deleted=highest),
    ):
        assert -(1 << 63) <= sync.number < 1 << 63, "a database takes 64 bits"
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


def test_of_each_kind_the_newest_acknowledged_deletion_is_kept() -> None:
    """By the object's own row, until it comes back or a newer one takes its place; none that is without a version."""
    rows: dict[str, ObjectSync | None] = {}
    syncs = ObjectSyncs(lambda _node, uid, sync: rows.update({uid: sync}))
    secret = ObjectKey("Secret", "default", "key")
    syncs.node_connected("n1", {"old": ObjectSync(KEY, deleted=3), "a": ObjectSync(KEY, 4), "s": ObjectSync(secret, 2)})
    assert syncs.of("n1").keys() == {"a", "s"}, "it has no object that it has deleted"
    assert (syncs.deletion_of("n1", "Pod"), syncs.deletion_of("n1", "Secret")) == (3, 0)
    syncs.deleted("n1", "a", 7)
    assert rows == {"a": ObjectSync(KEY, deleted=7), "old": None}
    syncs.deleted("n1", "s")
    assert rows["s"] is None
    for uid, version in (("b", 6), ("c", 0), ("d", 1 << 62)):
        syncs.sending("n1", uid, KEY, 5)
        syncs.deleted("n1", uid, version)
        assert rows[uid] is None
        assert syncs.deletion_of("n1", "Pod") == 7
    syncs.sending("n1", "a", KEY, 8)
    assert (rows["a"], syncs.deletion_of("n1", "Pod")) == (ObjectSync(KEY, sent=8), 0)
    syncs.node_disconnected("n1")
    assert syncs.deletion_of("n1", "Pod") == 0
    syncs.node_connected("n1", {uid: sync for uid, sync in rows.items() if sync is not None})
    syncs.deleted("n1", "a", 9)
    syncs.forget("n1")
    assert syncs.deletion_of("n1", "Pod") == 0, "its Node is another one"
