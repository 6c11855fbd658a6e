"""`patch`: changes fields of objects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modules.apimachinery.printing.fields import text_at
from modules.apimachinery.yaml_reader import YamlError, documents
from modules.cli.errors import KubectlError, StatusError, UsageError
from modules.cli.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import Listing, find
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser

_TYPES: Final = {"strategic": STRATEGIC_MERGE_PATCH, "merge": MERGE_PATCH, "json": JSON_PATCH}
_MOST_BYTES: Final = 16 * 1024 * 1024


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser, "TYPE NAME, or TYPE/NAME…")
    arguments.add_namespace(parser, all_too=False)
    arguments.add_files(parser)
    arguments.add_output(parser)
    arguments.add_dry_run(parser)
    parser.add_argument("-p", "--patch", default="", metavar="PATCH", help="JSON or YAML")
    parser.add_argument("--patch-file", default="", metavar="FILE", help="a file that holds the patch")
    parser.add_argument("--type", choices=tuple(_TYPES), default="strategic", help="kind of patch (default: strategic)")
    parser.add_argument("--subresource", default="", metavar="NAME", help="a part with an address of its own: status")
    parser.add_argument("--field-manager", default="", metavar="NAME", help="who changes it")
    parser.absent("--local", "the server makes the patch; --dry-run=server -o yaml shows its result")


def run(session: Session, chosen: Any) -> int:
    """Patch the objects; return 1 when one was not patched."""
    body = msgspec.json.encode(read_patch(chosen))
    if chosen.dry_run == "client":
        raise UsageError("a patch is made by the server: --dry-run=server shows its result")
    wanted = find(session, chosen, verb="patch")
    query = [("dryRun", "All")] if chosen.dry_run == "server" else []
    query += [("fieldManager", chosen.field_manager)] if chosen.field_manager else []
    errors: list[KubectlError] = []
    for each in wanted:
        if isinstance(each, Listing):
            raise UsageError("the name of the object is missing: patch TYPE NAME -p PATCH")
        path = each.resource.path(each.namespace, each.name, chosen.subresource)
        try:
            before = session.client.get(path)
            after = session.client.request("PATCH", path, query, body, _TYPES[chosen.type])
        except StatusError as error:
            errors.append(error)
            continue
        changed = text_at(before, "metadata.resourceVersion") != text_at(after, "metadata.resourceVersion")
        same = not changed and chosen.dry_run == "none"
        print_result(chosen, each.resource, after, "patched (no change)" if same else "patched")
    return report(session, errors)


def read_patch(chosen: Any) -> Any:
    """Return the patch of `-p` or `--patch-file`.

    Raises:
        UsageError: there is no patch, or two.
        KubectlError: it cannot be read.
    """
    if chosen.patch and chosen.patch_file:
        raise UsageError("cannot specify --patch and --patch-file together")
    if not (chosen.patch or chosen.patch_file):
        raise UsageError("must specify --patch (-p) or --patch-file containing the contents of the patch")
    text = chosen.patch
    if chosen.patch_file:
        try:
            with Path(chosen.patch_file).open("rb") as stream:
                text = stream.read(_MOST_BYTES).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise KubectlError(f"unable to read patch file: {error}") from error
    try:
        found = [content for content, _ in documents(text)]
    except YamlError as error:
        raise KubectlError(f"unable to parse the patch: {error.why}") from error
    if len(found) != 1 or not isinstance(found[0], list if chosen.type == "json" else dict):
        wanted = "a list of operations" if chosen.type == "json" else "an object"
        raise UsageError(f"unable to parse the patch: {wanted} is wanted for --type={chosen.type}")
    return found[0]
