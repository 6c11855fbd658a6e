"""`cordon` and `uncordon`: whether pods may come onto nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import JsonObject, value_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError, StatusError, UsageError
from modules.cli.rest import MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import DRY_RUN
from modules.kubectl.resources import Listing, ObjectRef, fetch_refs, ref
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser

_NODES: Final = ("node", "nodes", "no")


def add(parser: VerbParser) -> None:
    """Add the options of both verbs."""
    parser.add_argument("words", nargs="*", metavar="NODE", help="names of nodes")
    arguments.add_selectors(parser, fields=False)
    arguments.add_dry_run(parser)


def run(session: Session, chosen: Any) -> int:
    """Mark nodes; return 1 when one could not be marked."""
    _, errors = mark(session, chosen, wanted_nodes(session, chosen), unschedulable=chosen.verb == "cordon")
    return report(session, errors)


def wanted_nodes(session: Session, chosen: Any) -> list[ObjectRef | Listing]:
    """Return the nodes that the words of a command, or its selector, mean.

    Raises:
        UsageError: it has neither, or both, or names another kind.
    """
    nodes = session.discovery.one("nodes")
    if bool(chosen.words) == bool(chosen.selector):
        raise UsageError("names of nodes are wanted, or -l")
    if chosen.selector:
        return [Listing(nodes, "", (("labelSelector", chosen.selector),))]
    names = []
    for word in chosen.words:
        kind, slash, name = word.rpartition("/")
        if slash and kind.lower() not in _NODES:
            where = f"`{session.program} get pods -o wide` shows the node of each pod"
            raise UsageError(f"`{chosen.verb}` takes nodes, which {word} is not; {where}")
        names.append(name)
    return [ref(session, nodes, name) for name in names]


def mark(
    session: Session, chosen: Any, wanted: Sequence[ObjectRef | Listing], *, unschedulable: bool
) -> tuple[list[tuple[ObjectRef, JsonObject]], list[KubectlError]]:
    """Cordon or uncordon nodes, and print the results; return the nodes, and the failures."""
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
    return found, errors
