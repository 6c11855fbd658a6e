"""Collects the history of one object from a trace of any length.

An event belongs to the history if it names the object, if it answers or was caused by an event of the history (and is
about no other object of that kind), or if it concerns a sandbox or container of the object. The chain of causes of
these events is included, except a commit's, which stores the objects of many messages.

The trace is read again until nothing new is learnt, which takes two or three passes; only the history is in memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.processes.edgecore.trace.event import Event, EventKind
from modules.processes.edgecore.trace.names import call_in, named_in
from modules.processes.edgecore.trace.reports import references
from modules.processes.edgecore.trace.target import Target, parts

Reread = Callable[[], Iterator[Event]]
"""Reads the trace again from its beginning."""

PASSES: Final = 8
"""Passes over a trace at most; a bound for malformed traces."""
OTHERS: Final = 8
"""Other objects that are named if the trace does not have this one."""
_UID_LABEL: Final = "io.kubernetes.pod.uid"
_ASIDE: Final = ("/lease/", "/node/", "/nodepatch/", "/nodestatus/")
"""Resources that a node reports about itself, which are not part of a pod's history."""
_POLLS: Final = frozenset({"list_containers", "list_pod_sandboxes", "list_images", "version", "status"})
"""Calls that read the state of all pods; part of a history only if they failed."""


class ObjectHistory(msgspec.Struct):
    """The events of a trace that concern one object."""

    target: Target
    events: list[Event]
    """In the order of their sending."""
    own: set[int]
    """Indices of the `events` about the object itself; the others are its causes or effects."""
    names: dict[str, str]
    """Names of the object's sandboxes and containers by id."""
    until: float
    """End of the trace, in seconds since its begin."""
    others: set[str] = msgspec.field(default_factory=set)
    """Some objects of the same kind."""


class _Known(msgspec.Struct):
    """The ids and references of the object that earlier events have shown."""

    uids: set[str] = msgspec.field(default_factory=set)
    names: dict[str, str] = msgspec.field(default_factory=dict)
    messages: set[str] = msgspec.field(default_factory=set)
    spans: set[int] = msgspec.field(default_factory=set)
    causes: set[int] = msgspec.field(default_factory=set)
    references: set[str] = msgspec.field(default_factory=set)
    """Configmaps and secrets that the object refers to; a query for one without a known cause is for the object."""
    others: set[str] = msgspec.field(default_factory=set)
    until: float = 0.0

    def size(self) -> int:
        """Return the number of known items, which grows in each pass that learns something."""
        return sum(map(len, (self.uids, self.names, self.messages, self.spans, self.causes, self.references)))


def history_of(reread: Reread, target: Target) -> ObjectHistory:
    """Return the history of `target`; it has no events if the trace does not have the object."""
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
    return ObjectHistory(
        target=target, events=events, own=own, names=known.names, until=known.until, others=known.others
    )


def _learn(event: Event, target: Target, known: _Known) -> None:
    known.until = max(known.until, event.end)
    if len(known.others) < OTHERS and target.named_other(event.about):
        namespace, _, name = parts(event.about)
        known.others.add(f"{namespace}/{name}")
    if event.span and event.span in known.causes and event.kind is not EventKind.TIMER:
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
    if event.cause and event.kind is not EventKind.COMMIT:
        known.causes.add(event.cause)
    if target.named_by(event.about):
        _learn_names(event, target, known)


def _learn_names(event: Event, target: Target, known: _Known) -> None:
    """Learn the uid and the references of the object."""
    if event.kind is EventKind.CALL:
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
    """Return whether an event is about the object itself."""
    if target.named_by(event.about):
        return True
    match event.kind:
        case EventKind.CALL:
            return event.about in known.names or _asks_about(event, known)
        case EventKind.CHANGE:
            return event.about in known.uids
        case EventKind.COMMIT:
            return any(key in event.body for key in target.json_names())
        case _:
            return bool(event.id) and event.id in known.messages and not target.named_other(event.about)


def _asks_about(event: Event, known: _Known) -> bool:
    if not known.uids or not any(uid.encode() in event.body for uid in known.uids):
        return False
    request = msgspec.json.encode(call_in(event).request)
    return any(uid.encode() in request for uid in known.uids)


def _aside(event: Event, target: Target) -> bool:
    """Return whether an effect of the history is not part of it: a timer, a call that reads all, a node's report."""
    if event.kind is EventKind.TIMER:
        return True
    if event.kind is EventKind.CALL and event.verb in _POLLS:
        return not event.failed
    return target.kind == "pod" and any(part in event.about for part in _ASIDE)


def _labels(value: Any, key: str) -> Iterator[str]:
    """Yield the values of a label anywhere in a request."""
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
    """Return the uid of the object in a message; empty without one."""
    try:
        return decode_json(body, _Body).content.metadata.uid
    except (msgspec.DecodeError, UnicodeError):
        return ""
