"""The last lines of a container that has ended badly: which container that is, and what of its log is shown."""

from typing import Final, NamedTuple

from beehive.trace.secret_forms import without_forms
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.insight.why.facts import NEVER_BEGAN, LastLines, statuses

MOST_LINES: Final = 10
MOST_READ: Final = 64 * 1024
"""Bytes of a log that are read for them."""
_LONGEST_LINE: Final = 200
"""Characters of a line; the end of a longer one is left out."""
_ENDS: Final = (("state.terminated", False), ("lastState.terminated", True))
"""Where a status has an end, and whether that is the previous container's if there is a newer one."""


class EndedContainer(NamedTuple):
    """A container that has ended badly, and has a log."""

    name: str
    is_previous: bool
    """Whether a newer one runs in its place."""


def ended_badly(pod: JsonObject) -> EndedContainer | None:
    """Return the container of a pod that ended last with another exit code than 0; None without one."""
    found = [
        (text_at(status, f"{path}.finishedAt"), EndedContainer(text_at(status, "name"), is_previous=is_previous))
        for status in statuses(pod)
        for path, is_previous in _ENDS
        if text_at(status, f"{path}.exitCode") not in ("", "0")
        and text_at(status, f"{path}.reason") not in NEVER_BEGAN
        and (not is_previous or not text_at(status, "state.terminated.exitCode"))
    ]
    return max(found, default=("", None), key=lambda each: each[0])[1]


def last_lines(container: str, log: bytes) -> LastLines | None:
    """Return the last lines of a log, without parts whose form tells that they are secret; None without lines."""
    text = without_forms(log[-MOST_READ:].decode("utf-8", "replace"))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-MOST_LINES:]
    return LastLines(container, [_cut(line) for line in lines]) if lines else None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"
