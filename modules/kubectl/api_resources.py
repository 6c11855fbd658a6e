"""`api-resources`: lists the resources of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.apimachinery.printing.tables import TableWriter
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.parser import VerbParser

if TYPE_CHECKING:
    from modules.kubectl.discovery import ApiResource
    from modules.kubectl.session import Session


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("-o", "--output", default="", choices=("", "wide", "name"), metavar="wide|name", help="form")
    parser.add_argument("--api-group", default=None, metavar="GROUP", help="only this group; empty for the core group")
    parser.add_argument("--namespaced", default="", nargs="?", const="true", choices=("true", "false", ""),
                        metavar="true|false", help="only those with or without a namespace")  # fmt: skip
    parser.add_argument("--verbs", default="", metavar="VERBS", help="only those with all of these verbs: list,get")
    parser.add_argument("--categories", default="", metavar="NAMES", help="only those in all of these: all")
    parser.add_argument("--sort-by", default="", choices=("", "name", "kind"), metavar="name|kind", help="order")
    parser.flag("--no-headers", text="no titles")
    parser.flag("--cached")


def run(session: Session, chosen: Any) -> int:
    """List the resources."""
    found = [each for each in session.discovery.all if _fits(each, chosen)]
    if chosen.sort_by:
        found.sort(key=lambda each: each.kind if chosen.sort_by == "kind" else each.plural)
    if chosen.output == "name":
        print_lines(each.qualified for each in found)
        return 0
    head = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    rows = [
        [each.plural, ",".join(each.short_names), each.api_version, str(each.namespaced).lower(), each.kind]
        for each in found
    ]
    if chosen.output == "wide":
        head += ["VERBS", "CATEGORIES"]
        rows = [[*row, ",".join(each.verbs), ",".join(each.categories)] for row, each in zip(rows, found, strict=True)]
    TableWriter(chosen.color).write(head, rows, with_head=not chosen.no_headers)
    return 0


def _fits(resource: ApiResource, chosen: Any) -> bool:
    return (
        (chosen.api_group is None or resource.group == chosen.api_group)
        and (not chosen.namespaced or resource.namespaced == (chosen.namespaced == "true"))
        and _words(chosen.verbs) <= set(resource.verbs)
        and _words(chosen.categories) <= set(resource.categories)
    )


def _words(text: str) -> set[str]:
    return {word for word in text.split(",") if word}
