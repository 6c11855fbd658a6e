"""How soon a relist follows the last one."""

from edged.pleg.hints import Announced
from edged.pleg.pace import DISTRUST, SILENT, RelistPace
from edged.pods.model import PodUid

ALONE, BESIDE = 1.0, 10.0
A = PodUid("a")
NOTHING: frozenset[PodUid] = frozenset()


def said(*pods: str, anything: bool = False) -> Announced:
    return Announced(frozenset(map(PodUid, pods)), anything)


SILENCE = said()


def relisted(
    pace: RelistPace, at: float, *changed: str, announced: Announced = SILENCE, whole: bool = True
) -> frozenset[PodUid]:
    return pace.relisted(at, frozenset(map(PodUid, changed)), announced, whole=whole)


def listening() -> RelistPace:
    """A stream that was opened at 0, and a relist since."""
    pace = RelistPace(ALONE, BESIDE)
    pace.stream_requested(0.0)
    pace.stream_opened(0.0)
    relisted(pace, 1.0)
    return pace


def test_alone_it_is_every_period() -> None:
    pace = RelistPace(ALONE, BESIDE)
    relisted(pace, 1.0)
    assert pace.period(100.0) == ALONE


def test_beside_a_stream_it_is_seldom_and_immediately_often_when_that_breaks() -> None:
    pace = listening()
    assert pace.period(1.0) == BESIDE
    pace.stream_broke()
    assert pace.period(1.0) == ALONE
    pace.stream_requested(2.0)
    assert pace.period(2.5) == ALONE
    pace.stream_opened(3.0)
    assert pace.period(3.0) == BESIDE


def test_a_stream_that_is_not_refused_is_open_after_a_while() -> None:
    pace = RelistPace(ALONE, BESIDE)
    pace.stream_requested(0.0)
    relisted(pace, 1.0)
    assert (pace.period(SILENT - 0.1), pace.period(SILENT)) == (ALONE, BESIDE)


def test_after_a_failed_inspection_a_relist_comes_soon() -> None:
    pace = listening()
    relisted(pace, 11.0, "a", announced=said("a"), whole=False)
    assert pace.period(11.0) == ALONE
    relisted(pace, 12.0, "a", announced=said("a"))
    assert pace.period(12.0) == BESIDE
    pace.relist_soon()
    assert pace.period(13.0) == ALONE


def test_a_change_that_was_announced_is_no_surprise() -> None:
    pace = listening()
    assert relisted(pace, 11.0, "a", announced=said("a")) == NOTHING
    assert relisted(pace, 21.0, "a", announced=said(anything=True)) == NOTHING
    assert pace.period(21.0) == BESIDE


def test_an_event_that_comes_a_moment_later_clears_the_stream() -> None:
    pace = listening()
    assert relisted(pace, 11.0, "a") == NOTHING
    assert pace.period(11.0) == ALONE
    assert relisted(pace, 12.0, announced=said("a")) == NOTHING
    assert pace.period(12.0) == BESIDE


def test_a_stream_that_has_missed_something_is_not_relied_on_for_a_while() -> None:
    pace = listening()
    relisted(pace, 11.0, "a")
    assert relisted(pace, 12.0) == {A}
    assert (pace.period(12.0), pace.period(12.0 + DISTRUST - 1)) == (ALONE, ALONE)
    assert relisted(pace, 12.0 + DISTRUST) == NOTHING
    assert pace.period(12.0 + DISTRUST) == BESIDE


def test_changes_from_before_the_stream_do_not_count_as_missed() -> None:
    pace = RelistPace(ALONE, BESIDE)
    relisted(pace, 1.0)
    pace.stream_requested(1.5)
    pace.stream_opened(1.5)
    relisted(pace, 2.0, "a")
    assert relisted(pace, 3.0) == NOTHING
    assert pace.period(3.0) == BESIDE


def test_a_broken_stream_is_not_blamed_for_later_changes() -> None:
    pace = listening()
    relisted(pace, 11.0, "a")
    pace.stream_broke()
    assert relisted(pace, 12.0) == NOTHING


def test_relists_beside_a_stream_are_not_more_frequent_than_alone() -> None:
    """Whatever is configured."""
    pace = RelistPace(5.0, 1.0)
    pace.stream_opened(0.0)
    relisted(pace, 1.0)
    assert pace.period(10.0) == 5.0


def test_a_stream_that_is_requested_again_is_another_one() -> None:
    pace = listening()
    pace.stream_requested(100.0)
    assert pace.period(101.0) == ALONE
