"""`scale`: sets the number of replicas of workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.apimachinery.printing.workloads import number_at
from modules.cli.errors import KubectlError, UsageError
from modules.cli.rest import MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import fetch_refs, find
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser)
    arguments.add_namespace(parser, all_too=False)
    arguments.add_selectors(parser, fields=False)
    arguments.add_files(parser)
    arguments.add_output(parser)
    arguments.add_dry_run(parser)
    parser.flag("--all", text="all objects of the type in the namespace")
    parser.add_argument("--replicas", default="", metavar="NUMBER", help="the number of pods that are wanted")
    parser.add_argument("--current-replicas", default="", metavar="NUMBER", help="only if this is the number now")
    parser.absent("--timeout", "`rollout status` waits")


def run(session: Session, chosen: Any) -> int:
    """Scale the workloads; return 1 when one was not scaled."""
    replicas = _number(chosen.replicas, "--replicas")
    current = _number(chosen.current_replicas, "--current-replicas") if chosen.current_replicas else None
    found, errors = fetch_refs(session, find(session, chosen, verb="scale"))
    query = [("dryRun", "All")] if chosen.dry_run == "server" else []
    for ref, obj in found:
        path = ref.resource.path(ref.namespace, ref.name, "scale")
        try:
            scale = session.client.get(path)
            given = number_at(scale, "spec.replicas")  # 0 is left out
            if current not in (None, given):
                raise KubectlError(f"Expected replicas to be {current}, was {given}")
            if chosen.dry_run != "client":
                session.client.request("PATCH", path, query, {"spec": {"replicas": replicas}}, MERGE_PATCH)
        except KubectlError as error:
            errors.append(error)
            continue
        print_result(chosen, ref.resource, obj, "scaled")
    return report(session, errors)


def _number(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{option}=NUMBER is required, 0 or more")
    return int(text)
