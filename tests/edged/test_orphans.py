"""What counts as an orphan."""

from edged.orphans import Orphans
from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodRef, PodUid

A, B = PodUid("a"), PodUid("b")


def snapshot(uid: PodUid, owner: str = "me") -> PodSnapshot:
    return PodSnapshot(PodRef(uid, "default", f"pod-{uid}"), {"s": True}, {}, owner)


def test_nothing_is_one_before_the_pods_are_known() -> None:
    """An agent that has just started would remove everything."""
    orphans = Orphans("me")
    assert orphans.find({A: snapshot(A)}, set()) == []
    orphans.start([])
    assert orphans.find({A: snapshot(A)}, set()) == [PodRef(A, "default", "pod-a")]


def test_pods_that_are_known_and_what_others_made_are_none() -> None:
    orphans = Orphans("me")
    orphans.start([])
    assert orphans.find({A: snapshot(A), B: snapshot(B, "another agent")}, {A}) == []
    assert orphans.find({B: snapshot(B, "")}, set()) == []


def test_an_orphan_is_found_once_until_it_is_removed() -> None:
    orphans = Orphans("me")
    orphans.start([])
    assert orphans.find({A: snapshot(A)}, set())
    assert orphans.find({A: snapshot(A)}, set()) == []
    assert orphans.get(A) == PodRef(A, "default", "pod-a")
    orphans.forget(A)
    assert orphans.get(A) is None
    assert orphans.find({A: snapshot(A)}, set())


def test_files_alone_are_one_unless_the_runtime_has_something_of_that_pod() -> None:
    """Then its owner decides."""
    orphans = Orphans("me")
    orphans.start([A, B])
    assert orphans.find({B: snapshot(B, "another agent")}, set()) == [PodRef(A, "", "")]
