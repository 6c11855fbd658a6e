"""The common parts of descriptions: labels, annotations, events, quantities, times."""

import time
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from modules.apimachinery.printing.ages import ago
from modules.apimachinery.printing.event_order import event_order
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.apimachinery.types.quantity import QuantityError, canonical_quantity, parse_quantity
from modules.apimachinery.types.times import SECOND, TimeError, parse_time
from modules.kubectl.describers.writer import NONE, AlignedWriter

UNSET: Final = "<unset>"
_LONGEST: Final = 140
_HIDDEN: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Related(NamedTuple):
    """Objects that belong to a described one."""

    events: Sequence[JsonObject] | None = None
    """Events about it; None if they were not asked for."""
    pods: Sequence[JsonObject] = ()
    """Of a node: its pods that have not ended. Of a claim: the pods of its namespace."""
    lease: JsonObject | None = None
    """The Lease of a node."""
    endpoints: JsonObject | None = None
    """The Endpoints of a service."""
    quotas: Sequence[JsonObject] = ()
    """The ResourceQuotas of a namespace."""
    limits: Sequence[JsonObject] = ()
    """The LimitRanges of a namespace."""


def name_and_namespace(out: AlignedWriter, obj: JsonObject) -> None:
    """Add the first two fields of most descriptions."""
    out.field(0, "Name", text_at(obj, "metadata.name"))
    out.field(0, "Namespace", text_at(obj, "metadata.namespace"))


def labels_and_annotations(out: AlignedWriter, obj: JsonObject) -> None:
    """Add the labels, and the annotations, with long values cut."""
    pairs(out, "Labels", map_at(obj, "metadata.labels"))
    annotations = map_at(obj, "metadata.annotations")
    title = "Annotations:"
    for key in sorted(set(annotations) - {_HIDDEN}):
        value = str(annotations[key]).removesuffix("\n")
        if len(value) + len(key) + 2 > _LONGEST or "\n" in value:
            out.row(0, title, f"{key}:")
            for line in value.split("\n"):
                out.row(0, "", f"  {_cut(line, _LONGEST - 2)}")
        else:
            out.row(0, title, f"{key}: {value}")
        title = ""
    if title:
        out.row(0, title, NONE)


def named(obj: JsonObject) -> AlignedWriter:
    """Begin a description with name, namespace, labels and annotations."""
    out = AlignedWriter()
    name_and_namespace(out, obj)
    labels_and_annotations(out, obj)
    return out


def conditions_table(out: AlignedWriter, obj: JsonObject, seen: str) -> None:
    """Add the table of conditions, if there are any; `seen` is the field with the time of the last look."""
    conditions = objects_at(obj, "status.conditions")
    if not conditions:
        return
    out.row(0, "Conditions:")
    out.row(1, "Type", "Status", f"{seen[:1].upper()}{seen[1:]}", "LastTransitionTime", "Reason", "Message")
    out.row(1, "----", "------", "-" * 17, "-" * 18, "------", "-------")
    for condition in conditions:
        times = (moment(text_at(condition, key)) for key in (seen, "lastTransitionTime"))
        kind, status, reason = (text_at(condition, key) for key in ("type", "status", "reason"))
        out.row(1, *(f"{cell} " for cell in (kind, status, *times, reason)), text_at(condition, "message"))


def pairs(out: AlignedWriter, name: str, members: JsonObject) -> None:
    """Add `key=value` for each member, one on a line."""
    out.values(0, name, (f"{key}={members[key]}" for key in sorted(members)))


def events_table(out: AlignedWriter, events: Sequence[JsonObject] | None, now: float) -> None:
    """Add the table of events, the newest last; nothing if they were not asked for."""
    if events is None:
        return
    if not events:
        out.field(0, "Events", NONE)
        return
    out.row(0, "Events:")
    out.row(1, "Type", "Reason", "Age", "From", "Message")
    out.row(1, "----", "------", "----", "----", "-------")
    for event in sorted(events, key=event_order):
        source = text_at(event, "source.component") or text_at(event, "reportingComponent")
        message = text_at(event, "message").strip()
        out.row(1, text_at(event, "type"), text_at(event, "reason"), _interval(event, now), source, message)


def events_about(events: Iterable[JsonObject], obj: JsonObject) -> list[JsonObject]:
    """Return the events that are about an object; a node's events have its name for a UID."""
    name, uid = text_at(obj, "metadata.name"), text_at(obj, "metadata.uid")
    kind, namespace = text_at(obj, "kind"), text_at(obj, "metadata.namespace")

    def about(event: JsonObject) -> bool:
        involved = map_at(event, "involvedObject")
        return (
            involved.get("kind") == kind
            and involved.get("name") == name
            and str(involved.get("namespace") or "") in ("", namespace)
            and involved.get("uid") in (None, "", uid, name)
        )

    return [event for event in events if about(event)]


def moment(text: str) -> str:
    """Return an RFC 3339 time as kubectl shows it, in local time: `Mon, 02 Jan 2006 15:04:05 +0000`."""
    try:
        at = parse_time(text) // SECOND
    except TimeError:
        return "<unknown>"
    return time.strftime("%a, %d %b %Y %H:%M:%S %z", time.localtime(at))


def amount(quantity: Any) -> Fraction:
    """Return the value of a quantity; 0 if it is missing or cannot be read."""
    try:
        return parse_quantity(quantity if isinstance(quantity, str | int | float) else "0")
    except QuantityError:
        return Fraction(0)


def resource_rows(out: AlignedWriter, level: int, name: str, resources: JsonObject) -> None:
    """Add resources and their quantities, if any."""
    if resources:
        out.row(level, f"{name}:")
        out.fields(level + 1, ((key, canonical_quantity(resources[key])) for key in sorted(resources)))


def controller_of(obj: JsonObject) -> str:
    """Return kind and name of the controlling owner; empty without one."""
    owner = next((each for each in objects_at(obj, "metadata.ownerReferences") if each.get("controller")), None)
    return "" if owner is None else f"{text_at(owner, 'kind')}/{text_at(owner, 'name')}"


def finalizers(obj: JsonObject) -> str:
    """Return the finalizers as Go prints a list."""
    return f"[{' '.join(map(str, list_at(obj, 'metadata.finalizers')))}]"


def terminating(obj: JsonObject, now: float) -> str:
    """Return the status of an object that is being deleted; empty for any other."""
    deleted = text_at(obj, "metadata.deletionTimestamp")
    return f"Terminating (lasts {ago(deleted, now)})" if deleted else ""


def _cut(line: str, limit: int) -> str:
    return f"{line[:limit]}..." if len(line) > limit else line


def _interval(event: JsonObject, now: float) -> str:
    first = ago(text_at(event, "eventTime") or text_at(event, "firstTimestamp"), now)
    if value_at(event, "series") is not None:
        last, count = text_at(event, "series.lastObservedTime"), text_at(event, "series.count")
        return f"{ago(last, now)} (x{count} over {first})"
    count = text_at(event, "count")
    if count.isdecimal() and count not in ("0", "1"):
        return f"{ago(text_at(event, 'lastTimestamp'), now)} (x{count} over {first})"
    return first
