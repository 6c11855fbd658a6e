"""The cells of the table for a width."""

import pytest

from modules.processes.edgecore.top.pod_rows import pod_rows
from modules.processes.edgecore.top.pods_screen import PodTable, pod_table
from modules.processes.edgecore.top.spans import Tone
from tests.modules.processes.edgecore.top.made import look, pod, running, waiting

CRASHER = pod("crasher", waiting("CrashLoopBackOff", "back-off 40s", restarts=4))
LONG = pod("n" * 63, running(), namespace="s" * 40)


def made(width: int, *, stale: bool = False) -> PodTable:
    """The table of two pods."""
    return pod_table(pod_rows(look(CRASHER, LONG, stats={"crasher": (12, 34)})), width, stale=stale)


@pytest.mark.parametrize("width", [78, 80, 100, 110, 196])
def test_it_has_the_width_of_the_screen_at_most(width: int) -> None:
    table = made(width)
    assert sum(column.width for column in table.columns) <= width
    for row in table.rows:
        assert all(len(cell.text) <= column.width for cell, column in zip(row, table.columns, strict=True))


def test_reasons_are_in_a_wide_one() -> None:
    assert [column.title for column in made(80).columns][-1] == "AGE"
    wide = made(160)
    assert [column.title for column in wide.columns][-1] == "WHY"
    assert [cell.text for cell in wide.rows[0]][2:4] == ["CrashLoopBackOff", "4 (9s ago)"]
    assert wide.rows[0][-1].text == "back-off 40s"


def test_figures_are_aligned() -> None:
    cpu = [row[4].text for row in made(80).rows]
    assert cpu == ["12m", "  -"]


def test_what_may_be_old_has_no_colours() -> None:
    assert {cell.tone for row in made(80, stale=True).rows for cell in row} == {Tone.FAINT}


def test_texts_are_harmless() -> None:
    evil = pod("p\x1b[2J[red]", waiting("Re\nason\u202e", "[link=x]"), namespace="n")
    table = pod_table(pod_rows(look(evil)), 200)
    assert table.rows[0][0].text == "n/p\\x1b[2J[red]"
    assert "Re ason\\u202e" in table.rows[0][2].text


def test_no_pods() -> None:
    assert pod_table([], 80).rows == ()
