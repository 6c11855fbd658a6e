"""What nodes have acknowledged of the objects that they were sent."""

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs

KEY = ObjectKey("Pod", "default", "web")


def test_the_versions_of_an_object_on_a_node() -> None:
    written: list[tuple[str, str, int | None]] = []
    syncs = ObjectSyncs(lambda node, uid, sync: written.append((node, uid, sync.version if sync else None)))
    syncs.node_connected("n1", {})
    syncs.sending("n1", "u", KEY)
    for version in (5, 5, 0):
        syncs.acknowledged("n1", "u", version)
    syncs.sending("n1", "u", KEY)
    assert written == [("n1", "u", 0), ("n1", "u", 5)], "what the node has is not forgotten when it is sent more"
    needed = [version for version in (0, 4, 5, 6) if syncs.is_needed("n1", "u", version)]
    assert needed == [4, 6], "a version is lower after a restore of etcd"
    syncs.node_restarted("n1", {"u": 5})
    assert syncs.of("n1")["u"].version == 5, "it was sent to this process"
    syncs.node_restarted("n1", {"u": 6})
    assert syncs.of("n1")["u"].version == 0
    syncs.deleted("n1", "u")
    syncs.deleted("n1", "u")
    assert written[2:] == [("n1", "u", 0), ("n1", "u", None)]


def test_of_a_node_that_is_not_connected_here_nothing_is_written() -> None:
    written: list[object] = []
    syncs = ObjectSyncs(lambda *change: written.append(change))
    syncs.node_connected("n1", {})
    syncs.node_disconnected("n1")
    syncs.sending("n1", "u", KEY)
    syncs.acknowledged("n1", "u", 5)
    syncs.deleted("n1", "u")
    assert (written, syncs.nodes(), syncs.of("n1")) == ([], [], {})
