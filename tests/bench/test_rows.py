"""The rows that `make bench` prints, and their goals."""

import pytest

from tests.bench import __main__ as bench
from tests.bench.rows import Goal, Row, Unit, written


@pytest.mark.parametrize(
    ("goal", "measurement", "floor", "held"),
    [
        (Goal(0.35), 0.35, None, True),
        (Goal(0.35), 0.36, None, False),
        (Goal(1.15, of_floor=True), 1.15, 1.0, True),
        (Goal(1.15, of_floor=True), 2.4, 2.0, False),
        (Goal(1.15, of_floor=True), 2.4, None, None),
        (Goal(1.0, at_most=False, of_floor=True), 99.0, 100.0, False),
        (Goal(1.0, at_most=False, of_floor=True), 101.0, 100.0, True),
    ],
)
def test_a_goal_is_about_the_measurement_or_about_its_ratio_to_the_floor(
    goal: Goal, measurement: float, floor: float | None, held: bool | None
) -> None:
    assert goal.held(measurement, floor) is held


def test_a_row_shows_medians_ratio_and_a_verdict_for_each_goal() -> None:
    goals = (Goal(0.5), Goal(1.15, of_floor=True))
    row = Row.of("pod", [0.3, 0.9, 0.4], Unit.SECONDS, floors=[0.2, 0.1, 0.3], kubeedge="0.9 s", goals=goals)
    assert row.cells() == (
        "pod", "0.400 s", "0.200 s", "2.00", "0.9 s", "≤ 0.500 s; ≤ 1.15 × floor", "held; MISSED",
    )  # fmt: skip


def test_a_row_without_floor_and_goal_has_neither() -> None:
    line = written(Row.of("idle", [55.0], Unit.MEGABYTES))
    assert line.split() == ["idle", "55.0", "MB", "–"]


def test_figures_that_a_machine_cannot_measure_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []
    sections = (
        bench.Section("there", "one", lambda rounds: ran.append(rounds) or []),  # type: ignore[func-returns-value]
        bench.Section("missing", "other", lambda _rounds: [], lambda: "needs root"),
    )
    monkeypatch.setattr(bench, "SECTIONS", sections)
    assert bench.main(["--rounds", "3"]) == 0
    assert ran == [3]
    assert "other\nskipped: needs root" in capsys.readouterr().out
