"""What counts as an orphan."""

from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodRef, PodUid
from edged.sync.orphans import Orphans

A, B = PodUid("a"), PodUid("b")


def snapshot(uid: PodUid, owner: str = "me") -> PodSnapshot:
    return PodSnapshot(PodRef(uid, "default", f"pod-{uid}"), {"s": True}, {}, owner)


def test_nothing_is_one_before_the_pods_are_known() -> None:
    """An agent that has just started would remove everything."""
    orphans = Orphans("me")
    assert orphans.find({A: snapshot(A)}, set()) == []
    orphans.start([])
    assert orphans.find({A: snapshot(A)}, set()) == [PodRef(A, "default", "pod-a")]


def test_known_pods_and_foreign_objects_are_no_orphans() -> None:
    orphans = Orphans("me")
    orphans.start([])
    assert orphans.find({A: snapshot(A), B: snapshot(B, "another agent")}, {A}) == []
    assert orphans.find({B: snapshot(B, "")}, set()) == []


def test_files_alone_are_one_unless_the_runtime_has_something_of_that_pod() -> None:
    """Then its owner decides."""
    orphans = Orphans("me")
    orphans.start([A, B])
    assert orphans.find({B: snapshot(B, "another agent")}, set()) == [PodRef(A, "", "")]
    assert orphans.find({}, set()) == [], "they are removed once"
