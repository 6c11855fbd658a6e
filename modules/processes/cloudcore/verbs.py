"""The commands `cloudcore apply`, `get`, `delete`, `token` and `metrics`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from beehive.clock import RealClock
from modules.cloud.apiserver.kinds import JsonObject, Kind, kind_called, kind_named
from modules.cloud.apiserver.manifests import ManifestError, items_of, read_manifests, text_of
from modules.processes.cloudcore.control_client import Apply, CommandItem, ControlClient, Delete, Get
from modules.processes.cloudcore.table_printer import aligned, table
from modules.processes.edgecore.exit_codes import ExitCode
from modules.tools.printing.terminal import print_error, print_json, print_lines, print_yaml


def apply(chosen: argparse.Namespace) -> int:
    """Run `cloudcore apply -f FILE`: print the outcome for each object; return 1 when one was refused."""
    documents = [document.content for document in read_manifests(*_text_of(chosen.file))]
    return _print_outcomes(ControlClient(chosen.socket).run(Apply(documents, chosen.namespace)))


def delete(chosen: argparse.Namespace) -> int:
    """Run `cloudcore delete KIND NAME` or `-f FILE`; return 1 when an object could not be deleted."""
    client = ControlClient(chosen.socket)
    return _print_outcomes([item for command in _deletions(chosen) for item in client.run(command)])


def get(chosen: argparse.Namespace) -> int:
    """Run `cloudcore get KIND [NAME]`; return 1 when the object does not exist."""
    kind = kind_called(chosen.kind)
    command = Get(kind.name, chosen.name, None if chosen.all_namespaces else chosen.namespace)
    client = ControlClient(chosen.socket)
    if chosen.watch:
        return _watch(client, command, kind, chosen)
    items = client.run(command)
    found = [item.object for item in items if item.object is not None]
    if found or not items:
        _print_objects(kind, found, chosen)
    return _print_errors(items)


def token(chosen: argparse.Namespace) -> int:
    """Run `cloudcore token`: print a new token, and nothing else."""
    print_lines([ControlClient(chosen.socket).token(chosen.lifetime)])
    return ExitCode.OK


def metrics(chosen: argparse.Namespace) -> int:
    """Run `cloudcore metrics`: print the metrics."""
    print_lines(ControlClient(chosen.socket).metrics().splitlines())
    return ExitCode.OK


def _deletions(chosen: argparse.Namespace) -> list[Delete]:
    if chosen.file:
        contents = [document.content for document in read_manifests(*_text_of(chosen.file))]
        return [_deletion_of(content, chosen) for content in items_of(contents)]
    if not (chosen.kind and chosen.name):
        sys.stderr.write("cloudcore delete: KIND NAME, or -f FILE, is wanted\n")
        raise SystemExit(ExitCode.USAGE)
    return [Delete(chosen.kind, chosen.name, chosen.namespace, chosen.grace)]


def _deletion_of(content: object, chosen: argparse.Namespace) -> Delete:
    try:
        meta = content["metadata"]  # type: ignore[index]
        namespace = meta.get("namespace", chosen.namespace)
        return Delete(content["kind"], meta["name"], namespace, chosen.grace)  # type: ignore[index]
    except (TypeError, KeyError, AttributeError) as error:
        raise ManifestError(chosen.file, 1, "every document needs kind and metadata.name") from error


def _watch(client: ControlClient, command: Get, kind: Kind, chosen: argparse.Namespace) -> int:
    widths: list[int] = []
    head = True
    try:
        for change, item in client.watch(command):
            if item.object is None:
                return _print_errors([item])
            if chosen.output in ("table", "wide"):
                rows = _rows(kind, [item.object], chosen)
                if change == "DELETED":
                    rows[1].append("(deleted)")
                lines = aligned(rows, widths)
                print_lines(lines if head else lines[1:])
                head = False
            else:
                _print_objects(kind, [item.object], chosen)
    except KeyboardInterrupt:
        return ExitCode.OK
    return ExitCode.OK


def _print_objects(
    kind: Kind,
    objects: Sequence[JsonObject],
    chosen: argparse.Namespace,
) -> None:
    one = bool(chosen.name) or chosen.watch
    shown = objects[0] if one and objects else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    if chosen.output == "json":
        print_json(shown, indent=2)
    elif chosen.output == "yaml":
        print_yaml(shown)
    elif chosen.output == "name":
        print_lines(f"{kind.singular}/{obj['metadata']['name']}" for obj in objects)
    elif objects:
        print_lines(aligned(_rows(kind, objects, chosen)))
    else:
        sys.stderr.write("No resources found\n")


def _rows(
    kind: Kind,
    objects: Sequence[JsonObject],
    chosen: argparse.Namespace,
) -> list[list[str]]:
    now = RealClock().now()
    wide, namespaces = chosen.output == "wide", chosen.all_namespaces
    return table(kind, objects, now, wide=wide, namespaces=namespaces)


def _print_outcomes(items: Sequence[CommandItem]) -> int:
    for item in items:
        if item.object is not None:
            kind = kind_named(item.object["kind"])
            print_lines([f"{kind.singular}/{item.object['metadata']['name']} {item.outcome}"])
    return _print_errors(items)


def _print_errors(items: Sequence[CommandItem]) -> int:
    errors = [item.error for item in items if item.error]
    for error in errors:
        print_error("cloudcore", error)
    return ExitCode.INTERNAL_ERROR if errors else ExitCode.OK


def _text_of(file: str) -> tuple[str, str]:
    """Return a file's text, and its name in errors; `-` is standard input."""
    return text_of(sys.stdin.buffer if file == "-" else Path(file), file), file
