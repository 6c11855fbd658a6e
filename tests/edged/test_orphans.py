"""What counts as an orphan."""

from edged.orphans import Orphans
from edged.pleg.reader import Glance
from edged.pods.model import PodRef, PodUid

A, B = PodUid("a"), PodUid("b")


def glance(uid: PodUid, owner: str = "me") -> Glance:
    return Glance(PodRef(uid, "default", f"pod-{uid}"), {"s": True}, {}, owner)


def test_nothing_is_one_before_the_pods_are_known() -> None:
    """An agent that has just started would remove everything."""
    orphans = Orphans("me")
    assert orphans.found({A: glance(A)}, set()) == []
    orphans.look_for([])
    assert orphans.found({A: glance(A)}, set()) == [PodRef(A, "default", "pod-a")]


def test_pods_that_are_known_and_what_others_made_are_none() -> None:
    orphans = Orphans("me")
    orphans.look_for([])
    assert orphans.found({A: glance(A), B: glance(B, "another agent")}, {A}) == []
    assert orphans.found({B: glance(B, "")}, set()) == []


def test_one_is_found_once_until_it_was_removed() -> None:
    orphans = Orphans("me")
    orphans.look_for([])
    assert orphans.found({A: glance(A)}, set())
    assert orphans.found({A: glance(A)}, set()) == []
    assert orphans.get(A) == PodRef(A, "default", "pod-a")
    orphans.removed(A)
    assert orphans.get(A) is None
    assert orphans.found({A: glance(A)}, set())


def test_files_alone_are_one_unless_the_runtime_has_something_of_that_pod() -> None:
    """Then its owner decides."""
    orphans = Orphans("me")
    orphans.look_for([A, B])
    assert orphans.found({B: glance(B, "another agent")}, set()) == [PodRef(A, "", "")]
