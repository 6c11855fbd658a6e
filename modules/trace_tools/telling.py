"""A story in words: what is said at the top, and a line for each step with its delay.

A step's delay is the time since its cause was sent, which the arrow names by number; without a known cause it is the
time since the step before. What happens over and over (probes, retries, heartbeats) is told twice, counted, and told
once more at its end; what only looks at the runtime is not told at all unless one asks for everything.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from modules.trace_tools.causes import NOBODY, causes_of
from modules.trace_tools.diagnosis import Diagnosis, State
from modules.trace_tools.event import CLOUD, RUNTIME, Event, Sort, label
from modules.trace_tools.gather import Story

FIRST: Final = 2
"""Repetitions that are told before they are only counted."""
FEW: Final = 4
"""Up to so many are told all."""


class Step(msgspec.Struct, frozen=True):
    """A line of a story."""

    number: int
    time: str
    """Wall clock, UTC."""
    delay: float
    """Seconds since the cause, or since the step before."""
    cause: int | None
    """Number of the step that caused it."""
    way: str
    text: str
    failed: bool
    mark: str
    """What is to be said of it beside its text: that the object waits here, for example."""
    id: str
    repeated: int = 0
    """How many like it follow untold, before the last."""


class Telling(msgspec.Struct, frozen=True):
    """A whole story in words."""

    about: str
    state: State
    why: str
    summary: str
    steps: tuple[Step, ...]


def tell(story: Story, diagnosis: Diagnosis, began: float, *, everything: bool = False) -> Telling:
    """The story in words; `began` is the wall clock of the trace's origin, seconds since the epoch."""
    repeats = {} if everything else _repeats(story, diagnosis)
    places = [place for place in range(len(story.events)) if repeats.get(place, 0) != _UNTOLD]
    numbers = {place: number for number, place in enumerate(places, 1)}
    causes = _told_causes(story, numbers)
    steps = []
    for place in places:
        mark = _MARKS[diagnosis.state] if place == diagnosis.step else ""
        steps.append(_step(story, place, causes[place], numbers, began, repeats.get(place, 0), mark))
    return Telling(str(story.target), diagnosis.state, diagnosis.why, _summary(story, diagnosis), tuple(steps))


def _told_causes(story: Story, told: Collection[int]) -> list[int]:
    """For each event the nearest of its causes that is told."""
    causes = causes_of(story.events)
    found = []
    for first in causes:
        cause, seen = first, {NOBODY}
        while cause not in told and cause not in seen:
            seen.add(cause)
            cause = causes[cause]
        found.append(cause if cause in told else NOBODY)
    return found


def lines(telling: Telling, *, colour: bool) -> list[str]:
    """The text of a story for a person."""
    paint = _Paint(colour=colour)
    good = telling.state in (State.RUNNING, State.ENDED, State.GONE, State.ARRIVED)
    state = (paint.good if good else paint.bad)(telling.state)
    head = [f"{paint.strong(telling.about)}: {state}" + (f", {telling.why}" if telling.why else "")]
    if telling.summary:
        head.append(telling.summary)
    return [*head, "", *_table(telling.steps, paint)] if telling.steps else head


_UNTOLD: Final = -1
_LOOKS: Final = frozenset({"list_pod_sandboxes", "list_containers", "pod_sandbox_status", "container_status"})
"""Calls that only look; told when they failed, or when everything is to be told."""
_MARKS: Final = {
    State.UNKNOWN: "",
    State.WAITING: "waits here",
    State.RUNNING: "runs",
    State.ENDED: "ended",
    State.GOING: "is here",
    State.GONE: "gone",
    State.ARRIVED: "there",
}


def _repeats(story: Story, diagnosis: Diagnosis) -> dict[int, int]:
    """By place: that it is not told, or how many after it are not."""
    found: dict[int, int] = {}
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, event in enumerate(story.events):
        if event.verb in _LOOKS and not event.failed and place != diagnosis.step:
            found[place] = _UNTOLD
        else:
            alike.setdefault(_signature(story, event), []).append(place)
    for places in alike.values():
        if len(places) > FEW:
            untold = [place for place in places[FIRST:-1] if place != diagnosis.step]
            found[places[FIRST - 1]] = len(untold)
            found.update(dict.fromkeys(untold, _UNTOLD))
    return found


def _signature(story: Story, event: Event) -> tuple[str, ...]:
    about = story.names.get(event.about, event.about)
    return (str(event.sort), event.source, event.target, event.verb, about, event.outcome)


def _step(
    story: Story, place: int, cause: int, numbers: dict[int, int], began: float, repeated: int, mark: str
) -> Step:
    event = story.events[place]
    before = story.events[cause if cause != NOBODY else max(place - 1, 0)]
    here = label(event.target)
    return Step(
        number=numbers[place],
        time=_clock(began + event.sent),
        delay=event.sent - before.sent,
        cause=numbers.get(cause),
        way=here if event.source == event.target else f"{label(event.source)} → {here}",
        text=_text(story, event),
        failed=event.failed,
        mark=mark,
        id=event.id,
        repeated=max(repeated, 0),
    )


def _text(story: Story, event: Event) -> str:
    about = story.names.get(event.about)
    what = f"{about} ({event.about[:12]})" if about else event.about
    parts = [f"{event.verb} {what}".rstrip()]
    if event.sort is Sort.FRAME:
        parts.append(_bytes(event.size))
    if event.waited >= 1e-3:
        parts.append(f"waited {seconds(event.waited)}")
    if event.end - event.taken >= 1e-4:
        parts.append(f"took {seconds(event.end - event.taken)}")
    if event.failed:
        parts.append(": ".join(part for part in (event.outcome, event.reason) if part))
    return " · ".join(parts)


def _summary(story: Story, diagnosis: Diagnosis) -> str:
    """How long it took from the frame that brought it (or its deletion) to where it is."""
    if diagnosis.since is None or diagnosis.step is None:
        return ""
    going = diagnosis.state in (State.GOING, State.GONE)
    what = "its deletion" if going else "it"
    first, reached = story.events[diagnosis.since], story.events[diagnosis.step]
    if diagnosis.state in (State.WAITING, State.GOING):
        rest = seconds(max(story.until - reached.end, 0))
        after = seconds(max(reached.sent - first.sent, 0))
        return f"the marked step is {after} after {what} came and {rest} before the trace ends"
    text = f"{seconds(max(reached.end - first.sent, 0))} after {what} came"
    if reached.target != RUNTIME or going:
        return text
    told = next((event for event in story.events if event.target == CLOUD and event.sent > reached.end), None)
    return text + (f"; the cloud was told {seconds(told.sent - reached.end)} later" if told else "")


def _table(steps: Sequence[Step], paint: "_Paint") -> list[str]:
    width = max(len(step.way) for step in steps)
    digits = len(str(steps[-1].number))
    told = []
    for step in steps:
        cause = f"←{step.cause}" if step.cause is not None else ""
        delay = f"+{seconds(step.delay)}" if step.delay >= 0 else f"-{seconds(-step.delay)}"
        mark = paint.strong(f"  ◀ {step.mark}") if step.mark else ""
        text = paint.bad(step.text) if step.failed else step.text
        when = paint.faint(f"{step.time}  {delay:>9} {cause:<{digits + 1}}")
        told.append(f"{step.number:>{digits}}  {when}  {step.way:<{width}}  {text}{mark}".rstrip())
        if step.repeated:
            told.append(" " * (digits + 2) + paint.faint(f"… {step.repeated} more like {step.number} …"))
    return told


class _Paint:
    """Colours of a terminal, or none."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def good(self, text: str) -> str:
        return self._in("32;1", text)

    def bad(self, text: str) -> str:
        return self._in("31;1", text)

    def strong(self, text: str) -> str:
        return self._in("1", text)

    def faint(self, text: str) -> str:
        return self._in("2", text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def seconds(value: float) -> str:
    """A length of time with three significant figures."""
    size = abs(value)
    for least, factor, unit in ((120.0, 1 / 60, "min"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms")):
        if size >= least:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs" if size >= 1e-7 else "0 s"


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f")[:-3]
