"""What a program needs at a moment: memory, descriptors, threads, rows, files, processor time; and what has grown."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

MOST_MEMORY: Final = 3.0
"""Megabytes that a program may have gained after its first hundred pods, and after each later hour."""
_SLACK: Final = 2
"""Descriptors and threads that may be under way at one look and not at another: a timer, a query of a user."""
_ROOM: Final = 1.1
_FEW: Final = 50
"""Rows, or files, that do not count."""
_HISTORIES: Final = {"cluster_changes", "cluster_links", "cluster_writes", "edgecore_history"}
"""Tables that grow to a bound of their own, which takes days."""
_PRESENT: Final = {"cluster_objects": "kind <> 'Event' AND body IS NOT NULL", "meta": "type <> 'event'"}
"""Which rows count where Events are, which end by themselves, and deletions, which are compacted."""


class Needs(NamedTuple):
    """What a program needed when nothing had happened for a while.

    Memory in megabytes; `share` of one core while nothing happened; `a_pod` in milliseconds of processor time for each
    pod that has come and gone since the last look.
    """

    program: str
    age: float
    pods: int
    resident: float
    proportional: float
    descriptors: int
    threads: int
    rows: int
    files: int
    kilobytes: int
    share: float
    a_pod: float


class Process:
    """A look at a process from outside."""

    def __init__(self, pid: int) -> None:
        self._directory = Path(f"/proc/{pid}")

    def memory(self) -> tuple[float, float]:
        """Its resident memory, and its proportional share, in megabytes."""
        found = self._numbers("smaps_rollup")
        return found["Rss"] * 1.024e-3, found["Pss"] * 1.024e-3

    def threads(self) -> int:
        """How many threads it has."""
        return self._numbers("status")["Threads"]

    def descriptors(self) -> int:
        """How many descriptors it has."""
        return len(os.listdir(self._directory / "fd"))  # noqa: PTH208 - a descriptor may be closed meanwhile

    def _numbers(self, name: str) -> dict[str, int]:
        lines = (line.split() for line in (self._directory / name).read_text().splitlines())
        return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def rows_by_table(directory: Path) -> dict[str, int]:
    """Return the rows of each table of the databases in a directory, without histories and Events."""
    found = {}
    for file in directory.glob("*.db"):
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                if table not in _HISTORIES:
                    counted = f'"{table}" WHERE {_PRESENT.get(table, "true")}'
                    found[f"{file.stem}: {table}"] = database.execute(f"SELECT count(*) FROM {counted}").fetchone()[0]  # noqa: S608
    return found


def files_below(directory: Path) -> tuple[int, int]:
    """Return how many files a directory has at any depth, and their space on the disk in kilobytes."""
    count = blocks = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                found = os.lstat(Path(parent, name))
            except FileNotFoundError:
                continue
            count, blocks = count + 1, blocks + found.st_blocks
    return count, blocks // 2


def grown(looks: Sequence[Needs]) -> list[str]:
    """Return what one process needs more of at its last look than it may, in words.

    Args:
        looks: at one process, in their order: before any pod, after the first hundred or more, and later ones.
    """
    first, *later = looks
    if not later:
        return []
    found = []
    warm, last = later[0], later[-1]
    if warm.resident > first.resident + MOST_MEMORY:
        found.append(
            f"memory: {first.resident:.1f} MB before any pod, {warm.resident:.1f} after {warm.pods - first.pods}"
        )
    if last.resident > warm.resident + MOST_MEMORY:
        found.append(f"memory: {warm.resident:.1f} MB after {warm.pods} pods, {last.resident:.1f} after {last.pods}")
    for what in ("descriptors", "threads"):
        before, after = getattr(warm, what), getattr(last, what)
        if after > before + _SLACK:
            found.append(f"{what}: {before} after {warm.pods} pods, {after} after {last.pods}")
    for what in ("rows", "files"):
        before, after = getattr(warm, what), getattr(last, what)
        if after > before * _ROOM + _FEW:
            found.append(f"{what}: {before} after {warm.pods} pods, {after} after {last.pods}")
    if last.share > 2 * warm.share + 0.01:
        found.append(f"processor time at rest: {warm.share:.1%} of a core, then {last.share:.1%}")
    if last.a_pod > _ROOM * warm.a_pod + 10:
        found.append(f"processor time of a pod: {warm.a_pod:.0f} ms, then {last.a_pod:.0f}")
    return [f"{last.program}: {each}" for each in found]
