"""`get`: shows objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cmp_to_key, partial
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.columns import Column, columns_of, has_columns
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.apimachinery.printing.terminal import print_text
from modules.apimachinery.types.quantity import QuantityError, parse_quantity
from modules.cli.errors import KubectlError, StatusError, UsageError
from modules.cli.rest import path_of
from modules.kubectl import arguments
from modules.kubectl.events import in_order
from modules.kubectl.jsonpath import JsonPath, JsonPathError, relaxed
from modules.kubectl.output import Found, ObjectPrinter, TablePrinter, printer_of
from modules.kubectl.resources import Listing, ObjectRef, find, objects_of
from modules.kubectl.session import Session, report
from modules.kubectl.watching import followed, listing_of

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.discovery import ApiResource

_CHUNKS: Final = re.compile(r"\d+|\D", re.ASCII | re.DOTALL)

_DEFINITIONS: Final = ("apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions")
_MOST: Final = 40
"""Columns of a definition."""
"""Ends the groups of Kubernetes' own kinds that have columns of their own, and no definition."""


def sorted_by(objects: Sequence[JsonObject], expression: str) -> list[JsonObject]:
    """Return the objects in the order of the values at a path; those without a value come first.

    Numbers and quantities are compared by value, other texts naturally (`web-2` before `web-10`), which is right for
    times in UTC. Objects with equal values keep their order.

    Raises:
        JsonPathError: the path cannot be read, no object has a value there, or values cannot be compared.
    """
    path = JsonPath(relaxed(expression))
    found = [(_first(path.values(obj)), obj) for obj in objects]
    if found and all(value is None for value, _ in found):
        raise JsonPathError(f'couldn\'t find any field with path "{relaxed(expression)}" in the list of objects')
    order = cmp_to_key(_compare)
    return [obj for _, obj in sorted(found, key=lambda pair: order(pair[0]))]


def _first(values: list[Any]) -> Any:
    value = values[0] if values else None
    if isinstance(value, dict | list):
        raise JsonPathError(f"unsortable interface: {'map' if isinstance(value, dict) else 'slice'}")
    return value


def _compare(left: Any, right: Any) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, str) and isinstance(right, str):
        try:
            return _order(parse_quantity(left), parse_quantity(right))
        except QuantityError:
            return _order(_natural(left), _natural(right))
    if isinstance(left, str) or isinstance(right, str):
        raise JsonPathError("unsortable interface: texts among numbers")
    return _order(left, right)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that compares numbers within a text by value."""
    return [_chunk(chunk) for chunk in _CHUNKS.findall(text)]


def _chunk(chunk: str) -> tuple[int, int, str]:
    if not chunk.isdecimal() or not chunk.isascii():
        return ord(chunk), 0, ""
    digits = chunk.lstrip("0")
    return ord("0"), len(digits), digits


_FORMS = "json|yaml|wide|name|jsonpath=…|custom-columns=…"


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser)
    arguments.add_namespace(parser)
    arguments.add_selectors(parser)
    arguments.add_files(parser)
    arguments.add_output(parser, _FORMS)
    parser.flag("-w", "--watch", text="go on with every change")
    parser.flag("--watch-only", text="only changes, without the present objects")
    parser.flag("--output-watch-events", text="the type of each change, with -w")
    parser.flag("--show-labels", text="labels in the last column")
    parser.add_argument(
        "-L", "--label-columns", action="append", default=[], metavar="LABEL", help="a column for this label"
    )
    parser.flag("--show-kind", text="names with their kind: pod/web")
    parser.flag("--no-headers", text="no titles")
    parser.flag("--no-trunc", text="do not cut messages to the terminal's width")
    parser.flag("--ignore-not-found", text="no error for a missing object")
    parser.add_argument(
        "--sort-by", default="", metavar="JSONPATH", help="order of the rows: .metadata.creationTimestamp"
    )
    parser.add_argument("--chunk-size", type=int, default=500, metavar="N", help="objects of one request (default 500)")
    parser.add_argument("--subresource", default="", metavar="NAME", help="a part with an address of its own: status")
    parser.add_argument("--raw", default="", metavar="PATH", help="print the answer to GET PATH")
    parser.flag("--server-print", default=True)


def columns_for(session: Session, resource: ApiResource) -> Sequence[Column]:
    """Return the columns of a resource: kubectl's own, its definition's, or name and age where the server has no
    definition or shows it to nobody.
    """
    if resource.key_kind == resource.kind or has_columns(resource.key_kind):
        return columns_of(resource.key_kind)
    from modules.apimachinery.object_encoder import custom_column  # noqa: PLC0415 - it loads what most commands do without
    from modules.cloud.apiextensions.printer_columns import columns_of as printer_columns  # noqa: PLC0415 - as above

    try:
        definition = session.client.get(path_of(*_DEFINITIONS, resource.qualified))
    except StatusError:
        return columns_of("")
    version = next(
        (one for one in objects_at(definition, "spec.versions") if text_at(one, "name") == resource.version), {}
    )
    return (columns_of("")[0], *map(custom_column, printer_columns(version)[:_MOST]))


def run(session: Session, chosen: Any) -> int:
    """Show the objects; return 1 when one of them is not there."""
    if chosen.raw:
        return _raw(session, chosen.raw)
    wanted = find(session, chosen)
    several = len({each.resource for each in wanted}) > 1
    chosen.show_kind = chosen.show_kind or several or _is_category(session, chosen.words)
    printer = printer_of(chosen, partial(columns_for, session))
    if chosen.watch or chosen.watch_only:
        return _watch(session, chosen, wanted, printer)
    return _show(session, chosen, wanted, printer)


def _is_category(session: Session, words: Sequence[str]) -> bool:
    """Return whether the words are one category such as `all`, whose kinds a reader has not named."""
    return len(words) == 1 and "/" not in words[0] and bool(session.discovery.in_category(words[0].lower()))


def _raw(session: Session, path: str) -> int:
    if not path.startswith("/"):
        raise UsageError("--raw is a path, such as /api/v1/pods")
    print_text(session.client.raw("GET", path).decode(errors="replace").removesuffix("\n"))
    return 0


def _show(session: Session, chosen: Any, wanted: Sequence[ObjectRef | Listing], printer: ObjectPrinter) -> int:
    found, errors = _fetched(session, chosen, wanted)
    single = len(wanted) == 1 and not isinstance(wanted[0], Listing)
    count = sum(len(each.objects) for each in found)
    if count or (not errors and chosen.output not in ("", "wide", "name") and not chosen.ignore_not_found):
        printer.show(found, single=single)
    elif not errors and not chosen.ignore_not_found and not chosen.output.startswith("name"):
        namespaced = any(each.resource.namespaced for each in wanted)
        where = f" in {session.namespace} namespace." if namespaced and not session.all_namespaces else ""
        session.print_remark(f"No resources found{where}")
    return report(session, errors)


def _fetched(
    session: Session, chosen: Any, wanted: Sequence[ObjectRef | Listing]
) -> tuple[list[Found], list[KubectlError]]:
    """Return the objects of each resource, in the order that the resources are named, and the errors."""
    found: dict[ApiResource, list[JsonObject]] = {}
    errors: list[KubectlError] = []
    for each in wanted:
        try:
            found.setdefault(each.resource, []).extend(_objects(session, chosen, each))
        except StatusError as error:
            if not (chosen.ignore_not_found and error.is_not_found):
                errors.append(error)
    found = {resource: _ordered(resource, objects, chosen.sort_by) for resource, objects in found.items()}
    return [Found(resource, objects) for resource, objects in found.items()], errors


def _objects(session: Session, chosen: Any, wanted: ObjectRef | Listing) -> list[JsonObject]:
    if not isinstance(wanted, Listing):
        return [session.client.get(wanted.resource.path(wanted.namespace, wanted.name, chosen.subresource))]
    if chosen.subresource:
        raise UsageError("--subresource needs the name of an object")
    return objects_of(session, wanted, chosen.chunk_size)[0]


def _ordered(resource: ApiResource, objects: list[JsonObject], sort_by: str) -> list[JsonObject]:
    """Return the objects in the requested order; events by time."""
    if sort_by:
        return sorted_by(objects, sort_by)
    return in_order(objects) if resource.key_kind == "Event" else objects


def _watch(session: Session, chosen: Any, wanted: Sequence[ObjectRef | Listing], printer: ObjectPrinter) -> int:
    """Show the present objects, then each change, until it is interrupted."""
    if len(wanted) != 1:
        raise UsageError("you may only specify a single resource type or object with --watch")
    if chosen.sort_by:
        session.print_remark("warning: --watch requested, --sort-by will be ignored for watch events received")
    listing = listing_of(wanted[0])
    if not isinstance(wanted[0], Listing):
        session.client.get(wanted[0].path)  # an error where it is not there
    objects, version = objects_of(session, listing, chosen.chunk_size)
    resource = listing.resource
    if not chosen.watch_only:
        _show_changes(chosen, printer, resource, "ADDED", _ordered(resource, objects, chosen.sort_by))
    for event, obj in followed(session, listing, version):
        _show_changes(chosen, printer, resource, event, [obj])
    return 0


def _show_changes(
    chosen: Any, printer: ObjectPrinter, resource: ApiResource, event: str, objects: list[JsonObject]
) -> None:
    if isinstance(printer, TablePrinter):
        printer.show_changes(resource, objects, event if chosen.output_watch_events else "")
        return
    is_event = chosen.output_watch_events and chosen.output in ("json", "yaml")
    for obj in objects:
        printer.show([Found(resource, [{"type": event, "object": obj} if is_event else obj])], single=True)
