"""The nodes of a fleet that came and went in the last 24 hours."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from modules.tools.fleet.states import AWAY_AFTER
from modules.tools.printing.ages import human_duration

MOST: Final = 12
_DAY: Final = 86_400.0
_TOGETHER: Final = 60.0
_GONE: Final = "went away"
_JOINED: Final = "joined"


class Happening(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of what happened."""

    at: float
    """Seconds since 1970."""
    text: str
    nodes: tuple[str, ...] = ()
    is_bad: bool = False


def today(
    sessions: Mapping[str, Sequence[tuple[float, float]]], joined: Mapping[str, float], now: float
) -> tuple[list[Happening], int]:
    """Return the day's events, the newest first, and the number of omitted lines; lines about a single node go first.

    What happened to several nodes within a minute is one line, and so is a node that went away and is back.

    Args:
        sessions: by node, beginning and end of its connections, 0 for an open one.
        joined: by node, when its Node was made.
        now: seconds since 1970.
    """
    single: list[tuple[float, str, str, str]] = [
        (at, _JOINED, node, "") for node, at in joined.items() if now - _DAY < at <= now
    ]
    for node, found in sessions.items():
        ends = 0.0
        for began, ended in sorted(found):
            if ends and began - ends > AWAY_AFTER:
                single.append((began, "is back", node, human_duration(int(began - ends))))
            ends = ended
        if ends and now - ends > AWAY_AFTER:
            single.append((ends, _GONE, node, ""))
    recent = sorted(each for each in single if each[0] > now - _DAY)
    groups: list[list[tuple[float, str, str, str]]] = []
    newest: dict[str, list[tuple[float, str, str, str]]] = {}
    for each in recent:
        group = newest.get(each[1])
        if group is not None and each[0] - group[0][0] <= _TOGETHER:
            group.append(each)
        else:
            newest[each[1]] = group = [each]
            groups.append(group)
    lines = sorted((_line(group) for group in groups), key=lambda line: (len(line.nodes) > 1, line.at), reverse=True)
    return sorted(lines[:MOST], key=lambda line: line.at, reverse=True), max(0, len(lines) - MOST)


def _line(group: Sequence[tuple[float, str, str, str]]) -> Happening:
    at, what, node, lasted = group[0]
    names = tuple(dict.fromkeys(each[2] for each in group))
    if len(names) > 1:
        text = f"{len(names)} nodes {'are back' if what == 'is back' else what}"
    else:
        text = f"{node} {what}{f' after {lasted}' if lasted else ''}"
    return Happening(at, text, names[:100], is_bad=what == _GONE)
