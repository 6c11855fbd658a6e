"""The explanation of an object's history in words: a summary, and a line for each step with its delay.

A step's delay is the time since its cause was sent, which the arrow names by number; without a known cause it is the
time since the step before. If steps repeat (probes, retries, heartbeats), the first two and the last are shown and the
others counted. Calls that only read from the runtime are hidden unless everything is to be shown.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from modules.processes.edgecore.trace.diagnosis import Diagnosis, State
from modules.processes.edgecore.trace.event import CLOUD, NO_CAUSE, RUNTIME, Event, EventKind, causes_of, label
from modules.processes.edgecore.trace.object_history import ObjectHistory

FIRST: Final = 2
"""Repetitions that are shown before the others are counted."""
FEW: Final = 4
"""Most repetitions that are all shown."""


class ExplanationStep(msgspec.Struct, frozen=True):
    """One step of an explanation, on a line of its own."""

    number: int
    time: str
    """Wall clock, UTC."""
    delay: float
    """Seconds since the cause, or since the step before."""
    cause: int | None
    """Number of the step that caused it."""
    route: str = msgspec.field(name="way")
    text: str
    failed: bool
    mark: str
    """A remark beside its text, for example that the object waits here."""
    id: str
    repeated: int = 0
    """Number of hidden repetitions between this step and the last one."""


class Explanation(msgspec.Struct, frozen=True):
    """The explanation of an object's whole history."""

    about: str
    state: State
    why: str
    summary: str
    steps: tuple[ExplanationStep, ...]


def explanation_of(
    history: ObjectHistory, diagnosis: Diagnosis, began: float, *, everything: bool = False
) -> Explanation:
    """Explain a history; `began` is the wall clock of the trace's origin, in seconds since the Unix epoch."""
    repeats = {} if everything else _repeats(history, diagnosis)
    places = [place for place in range(len(history.events)) if repeats.get(place, 0) != _HIDDEN]
    numbers = {place: number for number, place in enumerate(places, 1)}
    causes = _shown_causes(history, numbers)
    steps = []
    for place in places:
        mark = "" if place != diagnosis.step else _REPORTS if diagnosis.is_reported else _MARKS[diagnosis.state]
        steps.append(_step(history, place, causes[place], numbers, began, repeats.get(place, 0), mark))
    return Explanation(str(history.target), diagnosis.state, diagnosis.why, _summary(history, diagnosis), tuple(steps))


def _shown_causes(history: ObjectHistory, shown: Collection[int]) -> list[int]:
    """Return the index of the nearest shown cause of each event, or NO_CAUSE."""
    causes = causes_of(history.events)
    found = []
    for first in causes:
        cause, seen = first, {NO_CAUSE}
        while cause not in shown and cause not in seen:
            seen.add(cause)
            cause = causes[cause]
        found.append(cause if cause in shown else NO_CAUSE)
    return found


def lines(explanation: Explanation, *, colour: bool) -> list[str]:
    """Return an explanation as lines of text."""
    paint = _Paint(colour=colour)
    good = explanation.state in (State.RUNNING, State.ENDED, State.GONE, State.ARRIVED)
    state = (paint.good if good else paint.bad)(explanation.state)
    head = [f"{paint.strong(explanation.about)}: {state}" + (f", {explanation.why}" if explanation.why else "")]
    if explanation.summary:
        head.append(explanation.summary)
    return [*head, "", *_table(explanation.steps, paint)] if explanation.steps else head


_HIDDEN: Final = -1
_READ_ONLY: Final = frozenset({"list_pod_sandboxes", "list_containers", "pod_sandbox_status", "container_status"})
"""Calls that only read; shown if they failed, or if everything is to be shown."""
_MARKS: Final = {
    State.UNKNOWN: "",
    State.STARTED_BEFORE: "",
    State.WAITING: "waits here",
    State.RUNNING: "runs",
    State.ENDED: "ended",
    State.GOING: "is here",
    State.GONE: "gone",
    State.ARRIVED: "there",
}
_REPORTS: Final = "says so"


def _repeats(history: ObjectHistory, diagnosis: Diagnosis) -> dict[int, int]:
    """Return `_HIDDEN` or the number of hidden repetitions by the index of an event; other events are shown."""
    found: dict[int, int] = {}
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, event in enumerate(history.events):
        if event.verb in _READ_ONLY and not event.failed and place != diagnosis.step:
            found[place] = _HIDDEN
        else:
            alike.setdefault(_signature(history, event), []).append(place)
    for places in alike.values():
        if len(places) > FEW:
            hidden = [place for place in places[FIRST:-1] if place != diagnosis.step]
            found[places[FIRST - 1]] = len(hidden)
            found.update(dict.fromkeys(hidden, _HIDDEN))
    return found


def _signature(history: ObjectHistory, event: Event) -> tuple[str, ...]:
    about = history.names.get(event.about, event.about)
    return (str(event.kind), event.source, event.target, event.verb, about, event.outcome)


def _step(
    history: ObjectHistory, place: int, cause: int, numbers: dict[int, int], began: float, repeated: int, mark: str
) -> ExplanationStep:
    event = history.events[place]
    before = history.events[cause if cause != NO_CAUSE else max(place - 1, 0)]
    here = label(event.target)
    return ExplanationStep(
        number=numbers[place],
        time=_clock(began + event.sent),
        delay=event.sent - before.sent,
        cause=numbers.get(cause),
        route=here if event.source == event.target else f"{label(event.source)} → {here}",
        text=_text(history, event),
        failed=event.failed,
        mark=mark,
        id=event.id,
        repeated=max(repeated, 0),
    )


def _text(history: ObjectHistory, event: Event) -> str:
    about = history.names.get(event.about)
    what = f"{about} ({event.about[:12]})" if about else event.about
    parts = [f"{event.verb} {what}".rstrip()]
    if event.kind is EventKind.FRAME:
        parts.append(_bytes(event.size))
    if event.waited >= 1e-3:
        parts.append(f"waited {seconds(event.waited)}")
    if event.end - event.taken >= 1e-4:
        parts.append(f"took {seconds(event.end - event.taken)}")
    if event.failed:
        parts.append(": ".join(part for part in (event.outcome, event.reason) if part))
    return " · ".join(parts)


def _summary(history: ObjectHistory, diagnosis: Diagnosis) -> str:
    """Return the time from the frame with the object, or with its deletion, to the step that shows its state."""
    if diagnosis.since is None or diagnosis.step is None:
        return ""
    going = diagnosis.state in (State.GOING, State.GONE)
    what = "its deletion" if going else "it"
    first, reached = history.events[diagnosis.since], history.events[diagnosis.step]
    if diagnosis.state in (State.WAITING, State.GOING):
        rest = seconds(max(history.until - reached.end, 0))
        after = seconds(max(reached.sent - first.sent, 0))
        return f"the marked step is {after} after {what} came and {rest} before the trace ends"
    text = f"{seconds(max(reached.end - first.sent, 0))} after {what} came"
    if reached.target != RUNTIME or going:
        return text
    reply = next((event for event in history.events if event.target == CLOUD and event.sent > reached.end), None)
    return text + (f"; the cloud was told {seconds(reply.sent - reached.end)} later" if reply else "")


def _table(steps: Sequence[ExplanationStep], paint: "_Paint") -> list[str]:
    width = max(len(step.route) for step in steps)
    digits = len(str(steps[-1].number))
    shown = []
    for step in steps:
        cause = f"←{step.cause}" if step.cause is not None else ""
        delay = f"+{seconds(step.delay)}" if step.delay >= 0 else f"-{seconds(-step.delay)}"
        mark = paint.strong(f"  ◀ {step.mark}") if step.mark else ""
        text = paint.bad(step.text) if step.failed else step.text
        when = paint.faint(f"{step.time}  {delay:>9} {cause:<{digits + 1}}")
        shown.append(f"{step.number:>{digits}}  {when}  {step.route:<{width}}  {text}{mark}".rstrip())
        if step.repeated:
            shown.append(" " * (digits + 2) + paint.faint(f"… {step.repeated} more like {step.number} …"))
    return shown


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
    """Return a duration as text with three significant figures."""
    size = abs(value)
    for least, factor, unit in ((120.0, 1 / 60, "min"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms")):
        if size >= least:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs" if size >= 1e-7 else "0 s"


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f")[:-3]
