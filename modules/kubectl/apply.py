"""`apply`: makes objects as manifests describe them, by server-side apply."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.cli.rest import APPLY_PATCH
from modules.kubectl import file_objects

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.file_objects import FileObject
    from modules.kubectl.session import Session

_ABSENT: Final = {
    "--prune": "it would delete what no manifest names; `delete -f` or `delete -l` the old objects yourself",
    "--prune-allowlist": "there is no --prune",
    "--applyset": "there is no --prune",
    "--force": "`replace --force -f` deletes an object and creates it again",
    "-l": "put the manifests that you want into a file or directory of their own",
    "--selector": "put the manifests that you want into a file or directory of their own",
}


def add(parser: VerbParser) -> None:
    """Add the options."""
    file_objects.add_options(parser)
    for name in ("--server-side", "--force-conflicts", "--overwrite"):
        parser.flag(name, default=True)
    for name, why in _ABSENT.items():
        parser.absent(name, why)


def run(session: Session, chosen: Any) -> int:
    """Apply every manifest; return 1 when one was refused."""
    return file_objects.for_each(session, chosen, "apply", "applying", partial(_apply, session, chosen))


def _apply(session: Session, chosen: Any, wanted: FileObject) -> tuple[JsonObject, str]:
    before = file_objects.live_object(session, wanted.ref)
    if chosen.dry_run == "client":
        after = wanted.object
        same = before is not None and covers(before, after)
    else:
        query = [*file_objects.write_query(session, chosen), ("force", "true")]
        after = session.client.request("PATCH", wanted.ref.path, query, wanted.object, APPLY_PATCH)
        same = before is not None and _unchanged(before, after)
    done = "created" if before is None else "unchanged" if same else "configured"
    return after, done


def covers(live: Any, wanted: Any) -> bool:
    """Return whether a live value has all wanted values; it may have more members, such as defaults."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(covers(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list) and len(live) == len(wanted):
        return all(map(covers, live, wanted))
    return bool(live == wanted)


def _unchanged(before: JsonObject, after: JsonObject) -> bool:
    """Return whether an object was not written; a dry run has no version to tell by."""
    versions = [text_at(obj, "metadata.resourceVersion") for obj in (before, after)]
    return versions[0] == versions[1] and _content(before) == _content(after)


def _content(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return obj | {"metadata": metadata}
