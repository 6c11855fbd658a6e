"""Reads docs/architecture.md: the steps from a pod's manifest to its containers."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).parents[1] / "docs" / "architecture.md"

_STEP: Final = re.compile(r"^(\d+)\. `(\S+\.py)` `([\w.]+)` \[([\w/-]+)\]", re.MULTILINE)
_NUMBER: Final = re.compile(r"-\d+$")


class Step(NamedTuple):
    """One call in the handling of a pod."""

    path: str
    """Of the file, relative to the repository."""
    function: str
    """Its qualified name: `Class.method`."""
    thread: str
    """Name of the thread without the number of a worker."""


def steps_in(page: str) -> list[Step]:
    """The numbered steps of a page: ``1. `edged/module.py` `Edged.on_pod` [edged]``.

    Raises:
        ValueError: the steps are not numbered 1, 2, 3 …
    """
    found = _STEP.findall(page)
    if [int(number) for number, *_ in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"steps are numbered {', '.join(number for number, *_ in found)}")
    return [Step(path, function, thread) for _, path, function, thread in found]


def calls_in(lines: Iterable[str]) -> list[Step]:
    """The calls that `tests.end_to_end.followed_edgecore` has written down."""
    calls = []
    for line in lines:
        path, function, thread = line.split(" ", 2)
        calls.append(Step(path, function, _NUMBER.sub("", thread)))
    return calls


def first_wrong(steps: Sequence[Step], calls: Sequence[Step]) -> str | None:
    """The first step that was not called after the steps before it; None when the calls contain all, in their order."""
    rest = iter(calls)
    for number, step in enumerate(steps, 1):
        if step not in rest:
            threads = sorted({call.thread for call in calls if call[:2] == step[:2]})
            seen = f"it was called on {', '.join(threads)}" if threads else "it was not called"
            return f"step {number}, {step.path} {step.function} [{step.thread}], does not follow the one before; {seen}"
    return None
