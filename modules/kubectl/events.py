"""`events`: shows events, the newest last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from beehive.printable import printable
from modules.apimachinery.printing.ages import ago
from modules.apimachinery.printing.event_order import event_order, last_time_of
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.apimachinery.printing.tables import TableWriter
from modules.cli.errors import UsageError
from modules.kubectl import arguments
from modules.kubectl.output import Found, printer_of
from modules.kubectl.resources import Listing, objects_of, parse_words
from modules.kubectl.watching import DELETED, followed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser
    from modules.kubectl.session import Session

_TYPES: Final = ("Normal", "Warning")
_HEAD: Final = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_namespace(parser)
    arguments.add_output(parser, "json|yaml|wide|name|jsonpath=…|custom-columns=…")
    parser.flag("-w", "--watch", text="go on with every new event")
    parser.add_argument("--for", dest="target", default="", metavar="TYPE/NAME", help="events of this object")
    parser.add_argument("--types", default="", metavar="TYPES", help="Normal, Warning, or both")
    parser.flag("--no-headers", text="no titles")
    parser.flag("--no-trunc", text="do not cut messages to the terminal's width")
    parser.add_argument("--chunk-size", type=int, default=500, metavar="N", help="events of one request (default 500)")


def run(session: Session, chosen: Any) -> int:
    """Show the events."""
    types = _types(chosen.types)
    target = _target(session, chosen.target)
    query = (("fieldSelector", ",".join(f"{path}={value}" for path, value in target.items())),) if target else ()
    listing = Listing(session.discovery.one("events"), session.list_namespace, query)

    def wanted(event: JsonObject) -> bool:
        fits = all(text_at(event, path) == value for path, value in target.items())
        return fits and (not types or text_at(event, "type").lower() in types)

    objects, version = objects_of(session, listing, chosen.chunk_size)
    events = in_order([event for event in objects if wanted(event)])
    printer = _EventPrinter(session, chosen, listing)
    if events:
        printer.show(events)
    elif not chosen.watch:
        where = "any namespace" if session.all_namespaces else f"{session.namespace} namespace"
        session.print_remark(f"No events found in {where}.")
    if chosen.watch:
        for change, event in followed(session, listing, version):
            if change != DELETED and wanted(event):
                printer.show([event], single=True)
    return 0


def in_order(events: Sequence[JsonObject]) -> list[JsonObject]:
    """Return events in the order that they were last seen, the newest last."""
    return sorted(events, key=event_order)


def event_row(event: JsonObject, now: float) -> list[str]:
    """Return the cells of an event: last seen (`5m (x3 over 10m)`), type, reason, object and message."""
    seen = ago(last_time_of(event), now)
    count = text_at(event, "series.count") or text_at(event, "count")
    first = text_at(event, "firstTimestamp") or text_at(event, "eventTime")
    if count not in ("", "0", "1") and first:
        seen = f"{seen} (x{count} over {ago(first, now)})"
    target = f"{text_at(event, 'involvedObject.kind')}/{text_at(event, 'involvedObject.name')}"
    cells = (seen, text_at(event, "type"), text_at(event, "reason"), target, text_at(event, "message").strip())
    return [printable(cell) for cell in cells]


class _EventPrinter:
    """A printer of events in the form of `-o`."""

    def __init__(self, session: Session, chosen: Any, listing: Listing) -> None:
        self._session = session
        self._chosen = chosen
        self._resource = listing.resource
        self._with_head = not chosen.no_headers
        self._is_table = chosen.output in ("", "wide")
        self._writer = TableWriter(chosen.color, cut=not (chosen.no_trunc or chosen.output == "wide"))
        self._printer = None if self._is_table else printer_of(chosen)

    def show(self, events: Sequence[JsonObject], *, single: bool = False) -> None:
        if self._printer is not None:
            self._printer.show([Found(self._resource, list(events))], single=single)
            return
        rows = [event_row(event, time.time()) for event in events]
        head: Sequence[str] = _HEAD
        if self._session.all_namespaces:
            head = ("NAMESPACE", *_HEAD)
            rows = [[printable(text_at(event, "metadata.namespace")), *row]
                    for event, row in zip(events, rows, strict=True)]  # fmt: skip
        self._writer.write(head, rows, with_head=self._with_head)
        self._with_head = False


def _types(text: str) -> set[str]:
    types = {word.strip().lower() for word in text.split(",") if word.strip()}
    if types - {each.lower() for each in _TYPES}:
        raise UsageError("valid --types are Normal or Warning")
    return types


def _target(session: Session, text: str) -> dict[str, str]:
    """Return the fields of an event of the object that `--for` names."""
    if not text:
        return {}
    (words, *more) = parse_words([text])
    if more or len(words.names) != 1:
        raise UsageError("--for must be in resource/name form, such as pod/web")
    resource = session.discovery.one(words.types)
    return {"involvedObject.kind": resource.kind, "involvedObject.name": words.names[0]}
