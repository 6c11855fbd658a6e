"""No step costs more calls or commits than `counts.toml` says."""

import sys
from pathlib import Path

import pytest

from tests.counts.calls import Counted
from tests.counts.table import MEASURES, known, with_counts, wrong

_OF_TABLE = (3, 11)
"""The Python of the table: others count comprehensions differently, for instance."""


@pytest.mark.skipif(sys.version_info[:2] != _OF_TABLE, reason="the table of counts is for Python 3.11")
@pytest.mark.parametrize("area", MEASURES)
def test_each_step_costs_what_the_table_says(area: str, tmp_path: Path) -> None:
    """Work and not time is counted, so neither the machine nor its load matters.

    After a change that costs less, or has to cost more: `python -m tests.counts --write`.
    """
    table = known()
    steps = MEASURES[area](tmp_path)
    assert {step for step in table if step.startswith(f"{area}:")} == set(steps)
    found = [line for step, counted in steps.items() for line in wrong(step, counted, table)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("calls", "is_wrong"), [(103, False), (104, True), (97, False), (96, True)])
def test_a_count_has_three_percent_of_room(calls: int, is_wrong: bool) -> None:
    found = wrong("a: b", Counted({"calls": calls}), {"a: b": {"calls": 100}})
    assert found == ([f"a: b: {calls} calls in place of 100"] if is_wrong else [])


def test_a_table_is_written_with_its_comment_and_read_again() -> None:
    text = with_counts('# comment\n# more\n\n["x: y"]\ncalls = 1\n', {"a: b": Counted({"calls": 12.5, "commits": 1})})
    assert text == '# comment\n# more\n\n["a: b"]\ncalls = 12.5\ncommits = 1\n'
