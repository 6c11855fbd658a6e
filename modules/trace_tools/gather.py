"""The events that belong to the story of one object, out of a trace of any length.

An event belongs to it when it names the object, when it answers or was caused by one that belongs (and is about no
other object of that kind), or when it concerns a sandbox or container that was made for it. Of what is not about the
object but led to it, only the way up is told; not that of a commit, which stores what many messages brought.

The trace is read again until nothing new is learnt, which takes two or three times; nothing but the story itself is
held in memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from modules.trace_tools.event import Event, Sort
from modules.trace_tools.names import call_in, named_in
from modules.trace_tools.reports import references
from modules.trace_tools.target import Target, parts

Reread = Callable[[], Iterator[Event]]
"""Reads the trace anew from its beginning."""

PASSES: Final = 8
"""More are never needed to learn something; a bound against a trace that makes no sense."""
OTHERS: Final = 8
"""Other objects that are named when there is nothing of this one."""
_UID_LABEL: Final = "io.kubernetes.pod.uid"
_ASIDE: Final = ("/lease/", "/node/", "/nodepatch/", "/nodestatus/")
"""What a node says of itself in the course of anything; no part of a pod's story."""
_ROUNDS: Final = frozenset({"list_containers", "list_pod_sandboxes", "list_images", "version", "status"})
"""Calls that look at everything; they are told only when they failed."""


class Story(msgspec.Struct):
    """What was found."""

    target: Target
    events: list[Event]
    """In the order in which they were sent."""
    own: set[int]
    """Places in `events` of those that are about the object; the others led to it or came of it."""
    names: dict[str, str]
    """What sandboxes and containers are called by their ids."""
    until: float
    """When the trace ends."""
    others: set[str] = msgspec.field(default_factory=set)
    """Some objects of the same kind."""


class _Known(msgspec.Struct):
    """What has been learnt about the object."""

    uids: set[str] = msgspec.field(default_factory=set)
    names: dict[str, str] = msgspec.field(default_factory=dict)
    messages: set[str] = msgspec.field(default_factory=set)
    spans: set[int] = msgspec.field(default_factory=set)
    causes: set[int] = msgspec.field(default_factory=set)
    references: set[str] = msgspec.field(default_factory=set)
    """Resources that it takes something from; who asks for one without a known cause asks for the object."""
    others: set[str] = msgspec.field(default_factory=set)
    until: float = 0.0

    def size(self) -> int:
        """Grows with everything that is learnt."""
        return sum(map(len, (self.uids, self.names, self.messages, self.spans, self.causes, self.references)))


def gather(reread: Reread, target: Target) -> Story:
    """The story of `target`; without events when the trace knows nothing of it."""
    known = _Known()
    for _ in range(PASSES):
        before = known.size()
        for event in reread():
            _learn(event, target, known)
        if known.size() == before:
            break
    chosen = [(event, _about(event, target, known)) for event in reread() if _belongs(event, target, known)]
    chosen.sort(key=lambda item: (item[0].sent, item[0].taken))
    events = [event for event, _ in chosen]
    own = {place for place, (_, about) in enumerate(chosen) if about}
    return Story(target=target, events=events, own=own, names=known.names, until=known.until, others=known.others)


def _learn(event: Event, target: Target, known: _Known) -> None:
    known.until = max(known.until, event.end)
    if len(known.others) < OTHERS and target.named_other(event.about):
        namespace, _, name = parts(event.about)
        known.others.add(f"{namespace}/{name}")
    if event.span and event.span in known.causes and event.sort is not Sort.TIMER:
        known.causes.add(event.cause)
    for made, about in named_in(event):
        if target.named_by(about):
            known.names[made] = about.partition(" ")[2] or "its sandbox"
    if not _core(event, target, known):
        return
    if event.id:
        known.messages.add(event.id)
    if event.span:
        known.spans.add(event.span)
    if event.cause and event.sort is not Sort.COMMIT:
        known.causes.add(event.cause)
    if target.named_by(event.about):
        _learn_names(event, target, known)


def _learn_names(event: Event, target: Target, known: _Known) -> None:
    """Uid of the object, and what it refers to."""
    if event.sort is Sort.CALL:
        known.uids.update(_labels(call_in(event).request, _UID_LABEL))
        return
    if uid := _uid(event.body):
        known.uids.add(uid)
    known.references.update(references(event, target.namespace))


def _belongs(event: Event, target: Target, known: _Known) -> bool:
    return bool(event.span and event.span in known.causes) or _core(event, target, known)


def _core(event: Event, target: Target, known: _Known) -> bool:
    if _about(event, target, known):
        return True
    if target.named_other(event.about):
        return False
    if event.parent and event.parent in known.messages:
        return True
    if not event.cause and event.verb == "query" and event.about in known.references:
        return True
    return bool(event.cause) and event.cause in known.spans and not _aside(event, target)


def _about(event: Event, target: Target, known: _Known) -> bool:
    """Whether it is about the object itself."""
    if target.named_by(event.about):
        return True
    match event.sort:
        case Sort.CALL:
            return event.about in known.names or _asks_about(event, known)
        case Sort.CHANGE:
            return event.about in known.uids
        case Sort.COMMIT:
            return any(key in event.body for key in target.json_names())
        case _:
            return bool(event.id) and event.id in known.messages and not target.named_other(event.about)


def _asks_about(event: Event, known: _Known) -> bool:
    if not known.uids or not any(uid.encode() in event.body for uid in known.uids):
        return False
    request = msgspec.json.encode(call_in(event).request)
    return any(uid.encode() in request for uid in known.uids)


def _aside(event: Event, target: Target) -> bool:
    """What happens in the course of the story without being part of it. A timer begins a new course."""
    if event.sort is Sort.TIMER:
        return True
    if event.sort is Sort.CALL and event.verb in _ROUNDS:
        return not event.failed
    return target.kind == "pod" and any(part in event.about for part in _ASIDE)


def _labels(value: Any, key: str) -> Iterator[str]:
    """Values of a label anywhere in a request."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, str):
                yield inner
            else:
                yield from _labels(inner, key)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Content(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Body(msgspec.Struct):
    content: _Content = msgspec.field(default_factory=_Content)


def _uid(body: bytes) -> str:
    """The uid of the object in a message; empty when it holds none."""
    try:
        return msgspec.json.decode(body, type=_Body).content.metadata.uid
    except (msgspec.DecodeError, UnicodeError):
        return ""
