"""Tests name the recordings that they read, so that a new file beside them changes no test."""

import re
from pathlib import Path

import pytest

from tests.interop.traces import FILES, KUBEEDGE_FILES, KUBEEDGE_MQTT, TRACES, needs_traces, recordings

TESTS = Path(__file__).parent
_LISTS = re.compile(r"(?:TRACES|KUBEEDGE|SHARED|shared\W)[^\n]*\.(?:r?glob|iterdir|walk)\(")
"""Calls that list a directory of recordings."""


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_lists_the_recordings(path: Path) -> None:
    assert _LISTS.findall(path.read_text()) == []


@needs_traces
def test_every_file_that_is_named_is_there() -> None:
    """A name that is spelt wrongly is a test that never runs."""
    assert [path for path in (*recordings(), *KUBEEDGE_FILES, *KUBEEDGE_MQTT) if not path.is_file()] == []
    assert set(FILES) == {path.parent.name for path in recordings()}
    assert all(path.is_relative_to(TRACES) for path in recordings())
