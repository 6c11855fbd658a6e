"""`diff`: shows what `apply` would change."""

from __future__ import annotations

from difflib import unified_diff
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import JsonObject, map_at, text_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError
from modules.cli.rest import APPLY_PATCH
from modules.kubectl import file_objects

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.file_objects import FileObject
    from modules.kubectl.session import Session

DIFFERENT: Final = 1
FAILED: Final = 2
_HIDDEN: Final = "***"
_REMOVED: Final = ("managedFields", "resourceVersion")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def add(parser: VerbParser) -> None:
    """Add the options."""
    file_objects.add_options(parser, outputs=False)
    for name in ("--server-side", "--force-conflicts"):
        parser.flag(name, default=True)
    parser.absent("--prune", "there is no `apply --prune`")


def run(session: Session, chosen: Any) -> int:
    """Print the differences; return 0 without any, 1 with some, 2 when an object could not be compared."""
    chosen.validate, chosen.dry_run, chosen.output = "strict", "server", ""
    found: list[bool] = []
    try:
        failed = file_objects.for_each(session, chosen, "diff", "comparing", partial(_compare, session, chosen, found))
    except KubectlError as error:
        raise KubectlError(str(error), status=FAILED) from error
    return FAILED if failed else DIFFERENT if any(found) else 0


def _compare(session: Session, chosen: Any, found: list[bool], wanted: FileObject) -> None:
    before = file_objects.live_object(session, wanted.ref)
    query = [*file_objects.write_query(session, chosen), ("force", "true")]
    after = session.client.request("PATCH", wanted.ref.path, query, wanted.object, APPLY_PATCH)
    lines = differences(before, after)
    found.append(bool(lines))
    print_lines(lines)


def differences(before: JsonObject | None, after: JsonObject) -> list[str]:
    """Return the lines of a unified diff of two states of an object; the values of secrets are hidden.

    Args:
        before: the object; None for a new one.
        after: the object as it would be.
    """
    name = ".".join(filter(None, (
        text_at(after, "apiVersion").replace("/", "."), text_at(after, "kind"),
        text_at(after, "metadata.namespace"), text_at(after, "metadata.name"),
    )))  # fmt: skip
    old, new = _masked(before or {}, after)
    lines = [] if before is None else _yaml_lines(old)
    return list(unified_diff(lines, _yaml_lines(new), f"live/{name}", f"merged/{name}", lineterm=""))


def _masked(before: JsonObject, after: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return both states without the values of a secret; they tell whether a value changed."""
    if (after.get("apiVersion"), after.get("kind")) != ("v1", "Secret"):
        return before, after
    return _hidden(before, after, "before"), _hidden(after, before, "after")


def _hidden(secret: JsonObject, other: JsonObject, word: str) -> JsonObject:
    """Return a secret with a word in place of each value; values that differ from another state's get another word."""
    shown = dict(secret)
    for field in ("data", "stringData"):
        values, others = map_at(secret, field), map_at(other, field)
        changed = {key for key in values if key in others and others[key] != values[key]}
        if values:
            shown[field] = {key: f"{_HIDDEN} ({word})" if key in changed else _HIDDEN for key in values}
    return shown


def _yaml_lines(obj: JsonObject) -> list[str]:
    from modules.kubectl.yaml_text import yaml_text  # noqa: PLC0415 - PyYAML takes longer than most commands

    metadata = {key: value for key, value in map_at(obj, "metadata").items() if key not in _REMOVED}
    notes = {key: value for key, value in map_at(metadata, "annotations").items() if key != _LAST_APPLIED}
    metadata.pop("annotations", None)
    metadata |= {"annotations": notes} if notes else {}
    return yaml_text(obj | {"metadata": metadata}).splitlines()
