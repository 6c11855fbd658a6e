"""Which cloudcores are alive, as one of them sees it on its own clock."""

import pytest

from modules.cloud.coordination.lease_keeper import Membership
from modules.cloud.coordination.leases import ObservedLease


def lease(name: str, renewal: str = "1", duration: float = 30.0) -> ObservedLease:
    """A Lease of a holder of that name."""
    return ObservedLease(name, "1", name, duration, renewal)


@pytest.fixture
def members() -> Membership:
    return Membership()


def test_a_lease_counts_for_its_duration_from_when_its_renewal_was_noticed(members: Membership) -> None:
    """Whatever time the renewal has, by whatever clock."""
    members.observe(lease("a"), 100.0, is_new=True)
    members.observe(lease("b", duration=40.0), 100.0, is_new=True)
    assert members.alive(129.9) == {"a", "b"}
    assert members.next_expiry(100.0) == 130.0
    assert members.alive(130.0) == {"b"}
    assert members.alive(140.0) == frozenset()
    assert members.next_expiry(140.0) is None


def test_only_a_change_renews(members: Membership) -> None:
    """A list that has it again says nothing new."""
    members.observe(lease("a"), 100.0, is_new=True)
    members.observe(lease("a"), 120.0, is_new=True)
    assert members.next_expiry(120.0) == 130.0
    members.observe(lease("a", "2"), 125.0, is_new=False)
    assert members.next_expiry(125.0) == 155.0


def test_a_lease_that_is_there_at_the_start_counts_from_its_next_renewal_on(members: Membership) -> None:
    """After a crash, a starting cloudcore does not wait for its own old Lease."""
    members.observe(lease("dead"), 0.0, is_new=False)
    members.observe(lease("living"), 0.0, is_new=False)
    assert members.alive(0.0) == frozenset()
    members.observe(lease("living", "2"), 9.0, is_new=False)
    assert members.alive(9.0) == {"living"}


def test_a_lease_that_was_given_up_does_not_count_any_more(members: Membership) -> None:
    members.observe(lease("a"), 0.0, is_new=True)
    members.remove("a")
    members.remove("never seen")
    assert members.alive(0.0) == frozenset()


def test_who_comes_back_after_a_long_silence_is_alive(members: Membership) -> None:
    members.observe(lease("a"), 0.0, is_new=True)
    members.observe(lease("a", "2"), 500.0, is_new=False)
    assert members.alive(500.0) == {"a"}


def test_leases_of_the_dead_are_found_after_a_while(members: Membership) -> None:
    members.observe(lease("dead"), 0.0, is_new=True)
    members.observe(lease("living"), 3000.0, is_new=True)
    assert members.silent_for(3600.0, 3599.0) == []
    assert [found.name for found in members.silent_for(3600.0, 3600.0)] == ["dead"]


def test_a_change_that_renews_nothing_is_known_too(members: Membership) -> None:
    """Another program has written a label: a deletion that named the former version would be refused for ever."""
    members.observe(lease("dead"), 0.0, is_new=True)
    members.observe(ObservedLease("dead", "2", "dead", 30.0, "1", "10.0.0.2:9443"), 10.0, is_new=False)
    assert members.routers(10.0) == {"dead": "10.0.0.2:9443"}
    assert [found.version for found in members.silent_for(3600.0, 3600.0)] == ["2"]


def test_leases_without_number_are_not_all_remembered(members: Membership) -> None:
    for number in range(1000):
        members.observe(lease(f"l{number}"), 0.0, is_new=True)
    assert len(members.alive(0.0)) == 256
