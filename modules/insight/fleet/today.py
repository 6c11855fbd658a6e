"""The nodes of a fleet that came and went in the last 24 hours."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.printing.ages import human_duration
from modules.insight.fleet.states import AWAY_AFTER

MOST: Final = 12
_DAY: Final = 86_400.0
_TOGETHER: Final = 60.0
_GONE: Final = "went away"
_JOINED: Final = "joined"
_BACK: Final = "is back"


class _Single(NamedTuple):
    """Something that happened to a node."""

    at: float
    what: str
    node: str
    lasted: float = 0.0
    """Seconds that it was away."""


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
    single = [_Single(at, _JOINED, node) for node, at in joined.items() if now - _DAY < at <= now]
    for node, found in sessions.items():
        ends = 0.0
        for began, ended in sorted(found):
            if ends and began - ends > AWAY_AFTER:
                single.append(_Single(began, _BACK, node, began - ends))
            ends = ended
        if ends and now - ends > AWAY_AFTER:
            single.append(_Single(ends, _GONE, node))
    groups: list[list[_Single]] = []
    newest: dict[str, list[_Single]] = {}
    for each in sorted(each for each in single if each.at > now - _DAY):
        group = newest.get(each.what)
        if group is not None and each.at - group[0].at <= _TOGETHER:
            group.append(each)
        else:
            newest[each.what] = group = [each]
            groups.append(group)
    groups.sort(key=lambda group: (any(each.node != group[0].node for each in group), group[0].at), reverse=True)
    lines = [_line(group) for group in groups[:MOST]]
    return sorted(lines, key=lambda line: line.at, reverse=True), max(0, len(groups) - MOST)


def _line(group: Sequence[_Single]) -> Happening:
    at, what, node, lasted = group[0]
    names = tuple(dict.fromkeys(each.node for each in group))
    if len(names) > 1:
        text = f"{len(names)} nodes {'are back' if what == _BACK else what}"
    else:
        text = f"{node} {what}{f' after {human_duration(int(lasted))}' if lasted else ''}"
    return Happening(at, text, names[:100], is_bad=what == _GONE)
