"""The pending writes of a transaction."""

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.database.pending import PendingWrites
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import Epoch, NodeState, ObjectSync

WEB = ObjectKey("Pod", "default", "web")


class Compared(str):
    """A node's name that counts the comparisons of all of them."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Compared.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_object_syncs_of_a_node_cost_the_same_however_many_others_are_pending() -> None:
    """While a crowd registers, a transaction has many nodes' ObjectSyncs."""
    pending, nodes = PendingWrites(), [Compared(f"n{number}") for number in range(100)]
    for node in nodes:
        for uid in ("u1", "u2", "u3"):
            pending.put_object_sync(node, uid, ObjectSync(WEB, 1))
    Compared.compared = 0
    for node in nodes:
        assert list(pending.object_syncs_of(node, {"u0": ObjectSync(WEB)})) == ["u0", "u1", "u2", "u3"]
    assert Compared.compared <= 2 * len(nodes)


def test_later_writes_come_over_the_earlier_ones_and_stay_apart_from_them() -> None:
    """What is put after the addition is not in what it was added to, nor is what a node's end has deleted."""
    earlier, later = PendingWrites(), PendingWrites()
    earlier.put_object_sync("n1", "u1", ObjectSync(WEB, 1))
    earlier.put_object_sync("n2", "u2", ObjectSync(WEB, 1))
    earlier.node_states["n2"] = NodeState("u", 1)
    later.forget_node("n2")
    later.put_object_sync("n1", "u1", None)
    later.put_object_sync("n1", "u3", ObjectSync(WEB, 3))
    earlier.add(later)
    later.put_object_sync("n1", "u4", ObjectSync(WEB, 4))
    assert earlier.object_syncs_of("n1", {}) == {"u3": ObjectSync(WEB, 3)}
    assert earlier.object_syncs_of("n2", {"u2": ObjectSync(WEB, 9)}) == {}
    assert earlier.node_state_of("n2", NodeState("u", 1)) == NodeState()
    assert earlier.nodes() == {"n1", "n2"}


def test_of_two_messages_about_a_node_or_an_epoch_the_later_one_counts() -> None:
    """A node that ends releases its claim of before, and one that connects again has claimed it."""
    earlier, later = PendingWrites(), PendingWrites()
    earlier.sessions |= {"ended": (5, 0), "back": (5, 0)}
    earlier.epoch = Epoch(1, 10)
    later.release("ended")
    later.release("back")
    later.sessions["back"] = 7, 0
    later.epoch = Epoch(2, 11)
    earlier.add(later)
    assert (earlier.sessions, earlier.released) == ({"back": (7, 0)}, {"ended", "back"})
    assert earlier.epoch == Epoch(2, 11)
    later.put_object_sync("n1", "u1", None)
    earlier.add(later)
    assert earlier.epoch == Epoch(2, 11)


def test_what_was_written_is_not_in_the_next_transaction() -> None:
    """Whatever it was: it would be written again by each of them."""
    written = PendingWrites()
    for value in vars(written).values():
        if isinstance(value, dict):
            value["n1"] = 1
        elif isinstance(value, set):
            value.add("n1")
        elif isinstance(value, list):
            value.append({})
    written.epoch = Epoch(1, 1)
    assert written
    written.clear()
    assert vars(written) == vars(PendingWrites())


def test_changes_that_are_left_out_are_a_gap_and_nothing_else() -> None:
    pending = PendingWrites()
    pending.put(ObjectEvent(EventType.ADDED, WEB, {"kind": "Pod", "metadata": {"resourceVersion": "7"}}, body=b"{}"))
    pending.leave_changes_out(9)
    assert (pending.changes, pending.gaps, len(pending.objects)) == ([], {"Pod": 9}, 1)
