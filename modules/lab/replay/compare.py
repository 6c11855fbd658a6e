"""Compares the outputs of a replay with the recorded ones."""

from collections.abc import Hashable, Iterator
from difflib import SequenceMatcher, unified_diff

import msgspec

from beehive.resource import Side, type_of
from modules.lab.replay.outputs import Output

EDGE = 1.0
"""Seconds before the end of the recorded run within which differences do not count, because one run may be a little
ahead.
"""


class Difference(msgspec.Struct, frozen=True):
    """An output of one run that the other does not have, or has in another form."""

    time: float
    recorded: Output | None
    replayed: Output | None

    @property
    def name(self) -> str:
        """Return the kind of decision that differs: the same for all objects."""
        known = self.recorded or self.replayed
        assert known is not None  # noqa: S101 - one of the two there is
        words = known.title.split()
        match known.about:
            case ("runtime", *_):
                return words[0]
            case _ if words[0] == "event":
                return " ".join(words[:2])
            case _:
                return " ".join(str(type_of(word, Side.EDGE)) if "/" in word else word for word in words)

    def render(self) -> str:
        """Return the difference as a diff."""
        known = self.recorded or self.replayed
        assert known is not None  # noqa: S101 - one of the two there is
        if self.replayed is None:
            return "\n".join(("recorded, but not done now:", *(f"- {line}" for line in known.lines)))
        if self.recorded is None:
            return "\n".join(("done now, but not recorded:", *(f"+ {line}" for line in known.lines)))
        changed = unified_diff(self.recorded.lines, self.replayed.lines, lineterm="", n=2)
        return "\n".join((f"otherwise than recorded: {known.title}", *list(changed)[2:]))


def differences(recorded: list[Output], replayed: list[Output], end: float) -> list[Difference]:
    """Return all differences, the earliest first.

    Args:
        recorded, replayed: outputs of both runs in their order.
        end: end of the recorded run.
    """
    theirs, ours = _by_object(recorded), _by_object(replayed)
    found: list[Difference] = []
    for about in dict.fromkeys((*theirs, *ours)):
        found += _of_object(theirs.get(about, []), ours.get(about, []))
    at_the_edge = end - EDGE
    return sorted((one for one in found if one.time < at_the_edge), key=lambda one: one.time)


def _by_object(outputs: list[Output]) -> dict[Hashable, list[Output]]:
    found: dict[Hashable, list[Output]] = {}
    for output in outputs:
        key = (output.about, output.title if not output.ordered else "")
        found.setdefault(key, []).append(output)
    return found


def _of_object(theirs: list[Output], ours: list[Output]) -> Iterator[Difference]:
    if (theirs or ours) and not (theirs or ours)[0].ordered:
        one, number = (theirs or ours)[0], max(len(theirs), len(ours))
        if not (ours and theirs) and not (one.passing and number == 1):
            yield Difference(one.time, one if theirs else None, one if ours else None)
        return
    if [one.lines for one in theirs] == [one.lines for one in ours]:
        return
    matcher = SequenceMatcher(None, [one.lines for one in theirs], [one.lines for one in ours], autojunk=False)
    for tag, begin, end, our_begin, our_end in matcher.get_opcodes():
        if tag != "equal":
            yield from _changed(theirs[begin:end], ours[our_begin:our_end])


def _changed(theirs: list[Output], ours: list[Output]) -> Iterator[Difference]:
    theirs, ours = ([output for output in each if not output.passing] for each in (theirs, ours))
    for at in range(max(len(theirs), len(ours))):
        one = theirs[at] if at < len(theirs) else None
        other = ours[at] if at < len(ours) else None
        yield Difference(min(x.time for x in (one, other) if x is not None), one, other)
