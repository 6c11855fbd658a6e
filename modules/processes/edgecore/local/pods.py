"""The command `edgecore pods`: prints the node's pods in the columns of `kubectl get pods`."""

import argparse
from collections.abc import Sequence
from time import time
from typing import Final

from modules.apimachinery.printing.ages import age_of
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.apimachinery.printing.pods import pod_ready, pod_restarts_and_when, pod_status
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_json, print_lines, print_yaml
from modules.cli.rest import path_of
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.target import pod_target
from modules.processes.edgecore.local.node import report_errors, rest_client
from modules.processes.edgecore.reporting import print_remark

_HEAD: Final = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP")
_WIDE: Final = ("OWNER", "IMAGES")
_NONE: Final = "<none>"
_SOURCE: Final = "kubernetes.io/config.source"


def pods(chosen: argparse.Namespace) -> int:
    """Print the pods."""
    with report_errors():
        found, missing = _wanted(chosen, _listed(chosen))
        _print(found, chosen)
    for name in missing:
        print_remark(f'error: pods "{name}" not found')
    return ExitCode.REFUSED if missing else ExitCode.OK


def _listed(chosen: argparse.Namespace) -> list[JsonObject]:
    namespace = "" if chosen.all_namespaces else chosen.namespace
    inside = ("namespaces", namespace) if namespace else ()
    query = [("labelSelector", chosen.selector)] if chosen.selector else []
    items = rest_client(chosen).get(path_of("api", "v1", *inside, "pods"), query).get("items")
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _wanted(chosen: argparse.Namespace, listed: Sequence[JsonObject]) -> tuple[list[JsonObject], list[str]]:
    """Return the named pods, by default all pods, and the names of pods that do not exist."""
    by_name = {(text_at(each, "metadata.namespace"), text_at(each, "metadata.name")): each for each in listed}
    if not chosen.words:
        return [by_name[key] for key in sorted(by_name)], []
    targets = [pod_target(word, chosen.namespace) for word in chosen.words]
    found = [by_name[target] for target in targets if target in by_name]
    return found, [str(target) for target in targets if target not in by_name]


def _print(found: Sequence[JsonObject], chosen: argparse.Namespace) -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": list(found)}
    match chosen.output:
        case "json":
            print_json(whole, indent=4)
        case "yaml":
            print_yaml(whole)
        case "name":
            print_lines(f"pod/{text_at(each, 'metadata.name')}" for each in found)
        case _ if not found:
            print_remark(
                "no pods on this node" if not (chosen.words or chosen.namespace or chosen.selector) else "no such pods"
            )
        case form:
            wide = form == "wide"
            rows = [row(each, time(), wide=wide) for each in found]
            head = [] if chosen.no_headers else [_HEAD + _WIDE if wide else _HEAD]
            print_lines(aligned([*head, *rows]))


def row(pod: JsonObject, now: float, *, wide: bool = False) -> tuple[str, ...]:
    """Return the cells of one pod; `now` in seconds since the epoch."""
    cells = (
        text_at(pod, "metadata.namespace"),
        text_at(pod, "metadata.name"),
        pod_ready(pod),
        pod_status(pod),
        pod_restarts_and_when(pod, now),
        age_of(pod, now),
        text_at(pod, "status.podIP") or _NONE,
    )
    return (*cells, _owner(pod), _images(pod)) if wide else cells


def _owner(pod: JsonObject) -> str:
    """Return who decides about the pod: a file of this node, or the cloud with its controller."""
    if map_at(pod, "metadata.annotations").get(_SOURCE) == "file":
        return "file"
    first = next(iter(objects_at(pod, "metadata.ownerReferences")), {})
    return f"{first.get('kind')}/{first.get('name')}" if first else "cloud"


def _images(pod: JsonObject) -> str:
    return ",".join(text_at(each, "image") for each in objects_at(pod, "spec.containers")) or _NONE
