"""What the counters say of the link as it is now: since when, or why not and when it is tried next."""

from edgehub.counters import LinkState
from edgehub.errors import REPLACED, PeerClosedError
from tests.edgehub.beds import Bed


def started(*, refusing: bool = False) -> Bed:
    """A hub that has dialled."""
    bed = Bed(refusing=refusing)
    bed.bee.start()
    bed.bee.settle()
    return bed


def test_a_link_that_is_up_reports_since_when() -> None:
    bed = started()
    with bed.bee:
        assert bed.counters.link == LinkState(bed.bee.hive.clock.now())


def test_attempts_that_fail_are_counted_with_the_reason_and_the_next_one() -> None:
    bed = started(refusing=True)
    with bed.bee:
        bed.bee.run_for(20)
        link, now = bed.counters.link, bed.bee.hive.clock.monotonic()
        assert (link.connected_at, link.lost_at) == (None, None)
        assert link.failures >= 2
        assert link.why
        assert link.next_try is None or link.next_try >= now


def test_a_replaced_link_is_named_also_after_a_new_one() -> None:
    """Another machine may have this node's name; the error says the way out."""
    bed = started()
    with bed.bee:
        replaced_at = bed.bee.hive.clock.now()
        error = PeerClosedError(REPLACED, "another connection")
        assert "edgecore join --name" in str(error)
        bed.cloud.cut(error)
        bed.bee.settle()
        bed.bee.run_for(300)
        assert bed.counters.link.connected_at is not None
        assert bed.counters.link.replaced_at == replaced_at


def test_a_link_that_ends_reports_its_loss_and_a_new_one_clears_it() -> None:
    bed = started()
    with bed.bee:
        bed.cloud.refusing = True
        lost_at = bed.bee.hive.clock.now()
        bed.cut(wait=30)
        link = bed.counters.link
        assert (link.connected_at, link.lost_at, link.why != "") == (None, lost_at, True)
        assert link.failures == bed.counters.ends["dial"]
        bed.cloud.refusing = False
        bed.bee.run_for(300)
        assert bed.counters.link.connected_at is not None
        assert bed.counters.link == LinkState(bed.counters.link.connected_at)


def test_a_cloud_that_has_answered_is_tried_again_soon() -> None:
    """However long it had been away before."""
    bed = started(refusing=True)
    with bed.bee:
        bed.bee.run_for(600)
        bed.cloud.refusing = False
        while not bed.counters.confirmed:
            bed.bee.run_for(0.5)
        bed.cloud.refusing = True
        bed.cloud.cut()
        before = bed.counters.ends["dial"]
        bed.bee.run_for(20)
        assert bed.counters.ends["dial"] - before >= 3
