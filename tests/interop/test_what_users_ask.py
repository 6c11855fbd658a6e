"""Each thread of the groups of wishes that concern devices and stale state has its answer in docs/compare.md."""

import re
from pathlib import Path

import pytest

from tests.docs import REPOSITORY, tables

PAGE = REPOSITORY / "docs" / "compare.md"
ASKED = {
    "### Devices and mappers": "AK 558, AK PR 385, KE 2899, KE 3601, KE 5327, KE 5468, KE 5758, KE 5892, KE 6269, "
    "KE 6430, KE 889, KE 908, KE 917, mapper-framework",
    "### Stale or duplicated state": "KE 1447, KE 1783, KE 1857, KE 2059, KE 2393, KE 2819, KE 3445, KE 4090, KE 5031, "
    "KE 6559, KE PR 5733",
}
"""The threads that a survey of October 2026 found, by the page's heading of their group."""


def section(path: Path, heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    _, found, rest = path.read_text().partition(f"\n{heading}")
    assert found, f"{path.name} has no {heading}"
    return rest.partition("\n### ")[0]


def threads(text: str) -> set[str]:
    """The threads in the first column of the tables."""
    named = " ".join(row.cells[0] for row in tables(text))
    return set(re.findall(r"\b(?:KE|AK) (?:PR )?\d+|mapper-framework", named))


@pytest.mark.parametrize("heading", list(ASKED))
def test_each_thread_has_an_answer(heading: str) -> None:
    """And the page names no other one."""
    assert threads(section(PAGE, heading)) == set(ASKED[heading].split(", "))
