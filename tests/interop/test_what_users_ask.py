"""Each thread of the groups of wishes that concern devices and stale state has its answer in docs/what-users-ask.md."""

import re
from pathlib import Path

import pytest

from tests.docs import REPOSITORY, tables
from tests.interop.traces import TRACES

ASKED = TRACES.parent / "design" / "what-users-ask.md"
PAGE = REPOSITORY / "docs" / "what-users-ask.md"
GROUPS = {"## 4. Devices and mappers": "## Devices and mappers", "## 6. Stale or duplicated state": "## Stale"}
"""Headings of the groups, and the beginnings of the page's."""


def section(path: Path, heading: str) -> str:
    """The text below a heading, up to the next one of its level."""
    _, found, rest = path.read_text().partition(f"\n{heading}")
    assert found, f"{path.name} has no {heading}"
    return rest.partition("\n## ")[0]


def threads(text: str) -> set[str]:
    """The threads in the first column of the tables."""
    named = " ".join(row.cells[0] for row in tables(text))
    return set(re.findall(r"\b(?:KE|AK) (?:PR )?\d+|mapper-framework", named))


@pytest.mark.skipif(not ASKED.is_file(), reason=f"the wishes are not at {ASKED}")
@pytest.mark.parametrize("heading", list(GROUPS))
def test_each_thread_has_an_answer(heading: str) -> None:
    """And the page names no other one; that its tests exist is seen by tests/test_docs.py."""
    asked = threads(section(ASKED, heading))
    assert len(asked) > 5
    assert threads(section(PAGE, GROUPS[heading])) == asked
