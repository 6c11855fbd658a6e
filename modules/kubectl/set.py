"""`set image`: gives the containers of workloads other images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.cli.errors import KubectlError, UsageError
from modules.cli.rest import STRATEGIC_MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import fetch_refs, find
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("words", nargs="*", metavar="image TYPE/NAME CONTAINER=IMAGE…", help="* is all containers")
    arguments.add_namespace(parser, all_too=False)
    arguments.add_selectors(parser, fields=False)
    arguments.add_files(parser)
    arguments.add_output(parser)
    arguments.add_dry_run(parser)
    parser.flag("--all", text="all objects of the type in the namespace")


def run(session: Session, chosen: Any) -> int:
    """Set the images; return 1 when a workload's images were not set."""
    what, words = (chosen.words[0] if chosen.words else ""), chosen.words[1:]
    if what != "image":
        raise UsageError("`set image TYPE/NAME CONTAINER=IMAGE` is here; `patch` and `edit` change other fields")
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    chosen.words = [word for word in words if "=" not in word]
    if not pairs or not all(pairs) or not all(pairs.values()):
        raise UsageError("at least one image update is required: CONTAINER=IMAGE")
    found, errors = fetch_refs(session, find(session, chosen, verb="set image"))
    query = [("dryRun", "All")] if chosen.dry_run == "server" else []
    for ref, obj in found:
        try:
            body = changes(obj, pairs)
            after = obj
            if chosen.dry_run != "client":
                after = session.client.request("PATCH", ref.path, query, body, STRATEGIC_MERGE_PATCH)
        except KubectlError as error:
            errors.append(error)
            continue
        print_result(chosen, ref.resource, after, "image updated")
    return report(session, errors)


def changes(obj: JsonObject, images: dict[str, str]) -> JsonObject:
    """Return the strategic merge patch that gives containers other images.

    Args:
        obj: a pod or a workload.
        images: by the containers' names; `*` is all.

    Raises:
        KubectlError: it has no such container.
    """
    steps = {"Pod": [], "CronJob": ["jobTemplate", "spec", "template", "spec"]}.get(
        text_at(obj, "kind"), ["template", "spec"]
    )
    path = ".".join(["spec", *steps])
    spec: JsonObject = {}
    for which in ("initContainers", "containers"):
        names = [text_at(each, "name") for each in objects_at(obj, f"{path}.{which}")]
        chosen = [{"name": name, "image": image} for name in names if (image := images.get(name) or images.get("*"))]
        if chosen:
            spec[which] = chosen
    missing = set(images) - {"*"} - {each["name"] for chosen in spec.values() for each in chosen}
    if missing:
        raise KubectlError(f'unable to find container named "{min(missing)}"')
    for step in reversed(steps):
        spec = {step: spec}
    return {"spec": spec}
