"""`cordon` and `uncordon`: whether pods may come onto nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.tools.kubectl import arguments
from modules.tools.kubectl.errors import StatusError, UsageError
from modules.tools.kubectl.output import DRY_RUN
from modules.tools.kubectl.resources import Listing, ObjectRef, fetch_refs, ref
from modules.tools.kubectl.rest import MERGE_PATCH
from modules.tools.kubectl.session import Session, report
from modules.tools.printing.fields import value_at
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    from modules.tools.kubectl.parser import VerbParser


def add(parser: VerbParser) -> None:
    """Add the options of both verbs."""
    parser.add_argument("words", nargs="*", metavar="NODE", help="names of nodes")
    arguments.add_selectors(parser, fields=False)
    arguments.add_dry_run(parser)


def run(session: Session, chosen: Any) -> int:
    """Mark nodes; return 1 when one could not be marked."""
    unschedulable = chosen.verb == "cordon"
    nodes = session.discovery.one("nodes")
    if bool(chosen.words) == bool(chosen.selector):
        raise UsageError("names of nodes are wanted, or -l")
    wanted: list[ObjectRef | Listing] = [ref(session, nodes, name.removeprefix("node/")) for name in chosen.words]
    if chosen.selector:
        wanted = [Listing(nodes, "", (("labelSelector", chosen.selector),))]
    found, errors = fetch_refs(session, wanted)
    word = "cordoned" if unschedulable else "uncordoned"
    for node, obj in found:
        already = bool(value_at(obj, "spec.unschedulable")) == unschedulable
        try:
            if not already and chosen.dry_run != "client":
                query = [("dryRun", "All")] if chosen.dry_run == "server" else []
                patch = {"spec": {"unschedulable": True if unschedulable else None}}
                session.client.request("PATCH", node.path, query, patch, MERGE_PATCH)
            print_lines([f"{node} {'already ' if already else ''}{word}{DRY_RUN[chosen.dry_run]}"])
        except StatusError as error:
            errors.append(error)
    return report(session, errors)
