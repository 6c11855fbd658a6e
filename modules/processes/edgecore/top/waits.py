"""The waits of the node, with their reasons: pods, modules, the link, requests to the cloud. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from beehive import ModuleName
from beehive.printable import printable
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.apimachinery.types.times import SECOND, TimeError, parse_time
from modules.processes.edgecore.top.amounts import duration, kilobytes
from modules.processes.edgecore.top.look import NodeSnapshot
from modules.processes.edgecore.top.pod_waits import pod_waits
from modules.processes.edgecore.top.spans import Line, Span, Tone, span

_PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure"})


class Wait(NamedTuple):
    """Something that waits."""

    who: str
    what: str
    left: float | None = None
    """Seconds until it is tried again; None where that is not known."""
    tone: Tone = Tone.BUSY


def waits_of(look: NodeSnapshot) -> list[Wait]:
    """Return all waits: the node's, the link's, the pods' by the time of the next attempt, then requests."""
    pods = [wait for pod in look.pods for wait in _of_pod(pod, look)]
    pods.sort(key=lambda wait: (wait.left is None, wait.left or 0.0, wait.who))
    return [*_of_node(look), *_of_link(look), *pods, *_of_requests(look)]


def wait_lines(waits: list[Wait], width: int) -> list[Line]:
    """Return lines of a width in characters: the waiting object, the time of the next attempt, and the cause."""
    who = min(max((len(wait.who) for wait in waits), default=0), max(12, width // 3))
    return [_line(wait, who, width) for wait in waits]


def _line(wait: Wait, who_width: int, width: int) -> Line:
    left = "" if wait.left is None else f"in {duration(wait.left)}" if wait.left >= 1 else "now"
    head = f"{cut(one_line(wait.who), who_width):<{who_width}}"
    rest = max(1, width - who_width - 12)
    return (
        span(head, Tone.STRONG),
        Span(f"{left:>10}  ", Tone.FAINT),
        span(cut(one_line(wait.what), rest), wait.tone),
    )


def _of_node(look: NodeSnapshot) -> Iterator[Wait]:
    for condition in look.state.conditions:
        told = ": ".join(part for part in (condition.reason, condition.message) if part)
        if condition.type == "Ready" and condition.status != "True":
            yield Wait("node", f"is not ready: {told}", tone=Tone.BAD)
        elif condition.type in _PRESSURES and condition.status == "True":
            yield Wait("node", f"{condition.type}: {condition.message or condition.reason}", tone=Tone.BAD)
    for name, module in look.state.modules.items():
        if module.state != "ready" and name != ModuleName.EDGEHUB:
            yield Wait(name, f"{module.state}{f': {module.reason}' if module.reason else ''}", tone=Tone.BAD)


def _of_link(look: NodeSnapshot) -> Iterator[Wait]:
    link = look.state.link
    if not link.enabled or link.connected_at is not None:
        return
    yield Wait("cloud", link.why or "the first connection is being made", link.next_try, Tone.BAD)
    messages = sum(held.messages for held in look.state.held.values())
    if messages:
        size = sum(held.bytes for held in look.state.held.values())
        yield Wait("outbox", f"{messages} messages ({kilobytes(size)}) wait for the cloud")


def _of_pod(pod: JsonObject, look: NodeSnapshot) -> Iterator[Wait]:
    work, uid = look.state.work, text_at(pod, "metadata.uid")
    who = f"{text_at(pod, 'metadata.namespace')}/{text_at(pod, 'metadata.name')}"
    due = None if work is None else work.due.get(uid)
    found = pod_waits(pod)
    for what in found:
        ends = text_at(pod, "metadata.deletionTimestamp")
        yield Wait(who, what, _until(ends, look.state.now) if ends else _retry(what, due), _tone(what))
    if not found and work is not None and uid in work.failed:
        yield Wait(who, "its last sync failed; see edgecore's log", due)


def _of_requests(look: NodeSnapshot) -> Iterator[Wait]:
    for resource in look.state.asked:
        yield Wait("metamanager", f"has asked the cloud for {resource}")


def _retry(what: str, due: float | None) -> float | None:
    """Return when something is tried again: a probe and a pull end by themselves."""
    return None if "probe" in what or "Pulling image" in what else due


def _tone(what: str) -> Tone:
    return Tone.BAD if "BackOff" in what or "Err" in what or "Error" in what else Tone.BUSY


def _until(moment: str, now: float) -> float | None:
    try:
        return max(0.0, parse_time(moment) / SECOND - now)
    except TimeError:
        return None


def one_line(text: str) -> str:
    """Return a text from outside on one line, without characters that control a terminal."""
    return printable(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """Cut a text to a number of characters; the last one is `…` when something is missing."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
