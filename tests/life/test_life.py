"""What counts as growth, and how a program is looked at."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.life.needs import Needs, Process, files_below, grown, rows_by_table

_BEFORE = Needs("n1", 0.0, 0, 50.0, 45.0, 40, 12, 100, 30, 900, 0.003, 0.0)
_WARM = _BEFORE._replace(pods=100, resident=52.9, a_pod=40.0)


def test_a_program_that_needs_no_more_has_not_grown() -> None:
    assert grown([_BEFORE]) == []
    assert grown([_BEFORE, _WARM]) == []
    assert grown([_BEFORE, _WARM, _WARM._replace(pods=700, resident=55.8, descriptors=42, threads=14)]) == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"resident": 56.0}, "memory: 52.9 MB after 100 pods, 56.0 after 700"),
        ({"descriptors": 43}, "descriptors: 40 after 100 pods, 43 after 700"),
        ({"threads": 15}, "threads: 12 after 100 pods, 15 after 700"),
        ({"rows": 161}, "rows: 100 after 100 pods, 161 after 700"),
        ({"files": 84}, "files: 30 after 100 pods, 84 after 700"),
        ({"share": 0.017}, "processor time at rest: 0.3% of a core, then 1.7%"),
        ({"a_pod": 55.0}, "processor time of a pod: 40 ms, then 55"),
    ],
)
def test_what_has_grown_is_named(changed: dict[str, Any], what: str) -> None:
    assert grown([_BEFORE, _WARM, _WARM._replace(pods=700, **changed)]) == [f"n1: {what}"]


def test_memory_that_the_first_pods_leave_counts_from_before_them() -> None:
    assert grown([_BEFORE, _WARM._replace(resident=53.1)]) == ["n1: memory: 50.0 MB before any pod, 53.1 after 100"]


def test_a_process_is_looked_at(tmp_path: Path) -> None:
    seen = Process(os.getpid())
    resident, proportional = seen.memory()
    assert 5.0 < proportional <= resident < 5000.0
    before = seen.descriptors()
    with (tmp_path / "file").open("w"):
        assert seen.descriptors() == before + 1
    assert seen.threads() >= 1


def test_rows_and_files_are_counted(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "one.db")) as database, database:
        for table in ("meta", "edgecore_history", "other"):
            database.execute(f"CREATE TABLE {table} (type)")
            database.executemany(f"INSERT INTO {table} VALUES (?)", [("pod",), ("event",)])  # noqa: S608
    below = tmp_path / "below"
    below.mkdir()
    (below / "file").write_bytes(b"x" * 5000)
    assert rows_by_table(tmp_path) == {"one: meta": 1, "one: other": 2}
    count, kilobytes = files_below(tmp_path)
    assert count == 2
    assert kilobytes >= 8
