"""`label` and `annotate`: set and remove entries of an object's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, map_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError, UsageError
from modules.cli.rest import MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import ObjectRef, change_each, find
from modules.kubectl.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser


class MetadataVerb(NamedTuple):
    """A verb that changes a map in the metadata."""

    field: str
    """`labels` or `annotations`."""
    noun: str
    """`label` or `annotation`."""
    set: str
    """Word of a change: `labeled`."""
    removed: str
    """Word of a change that only removes: `unlabeled`."""


_VERBS: Final = {
    "label": MetadataVerb("labels", "label", "labeled", "unlabeled"),
    "annotate": MetadataVerb("annotations", "annotation", "annotated", "annotated"),
}


class EntryChanges(NamedTuple):
    """The entries that the words of a command set and remove."""

    objects: tuple[str, ...]
    """The words before the changes, which name objects."""
    set: dict[str, str]
    removed: tuple[str, ...]


def read_changes(words: Sequence[str], noun: str) -> EntryChanges:
    """Return the objects and the changes in words such as `pod web app=x old-`.

    Raises:
        UsageError: no change, an object after a change, or a key that is set and removed.
    """
    first = next((place for place, word in enumerate(words) if _is_change(word)), len(words))
    for word in words[first:]:
        if not _is_change(word):
            raise UsageError(f"all resources must be specified before {noun} changes: {word}")
    found = dict(word.split("=", 1) for word in words[first:] if "=" in word)
    removed = tuple(word[:-1] for word in words[first:] if "=" not in word)
    both = [key for key in removed if key in found]
    if both:
        raise UsageError(f"can not both modify and remove a {noun} in the same command: {both[0]}")
    return EntryChanges(tuple(words[:first]), found, removed)


def add(parser: VerbParser) -> None:
    """Add the options of the verb that is the parser's default `verb`."""
    noun = _VERBS[parser.get_default("verb")].noun
    parser.add_argument("words", nargs="*", metavar="TYPE[/NAME]… KEY=VALUE… KEY-…", help="objects, then changes")
    arguments.add_namespace(parser)
    arguments.add_selectors(parser)
    arguments.add_files(parser)
    arguments.add_output(parser)
    arguments.add_dry_run(parser)
    parser.flag("--all", text="all objects of the type")
    parser.flag("--overwrite", text=f"change a {noun} that is there already")
    parser.flag("--list", text=f"show the {noun}s")
    parser.absent("--local", "--dry-run=client -o yaml shows the result for the object of the server")
    parser.add_argument("--resource-version", default="", metavar="VERSION", help="change only this version")
    parser.add_argument("--field-manager", default="", metavar="NAME", help="who changes it")


def run(session: Session, chosen: Any) -> int:
    """Change the objects; return 1 when one was not changed."""
    verb = _VERBS[chosen.verb]
    wanted = read_changes(chosen.words, verb.noun)
    if not (wanted.set or wanted.removed or chosen.list):
        raise UsageError(f"at least one {verb.noun} update is required: KEY=VALUE sets, KEY- removes")
    chosen.words = list(wanted.objects)
    refs = find(session, chosen, verb=verb.noun)
    if any(not isinstance(each, ObjectRef) for each in refs) and not (
        chosen.all or chosen.selector or chosen.field_selector
    ):
        raise UsageError("resource(s) were provided, but no name was specified: name them, or say -l or --all")
    return change_each(session, refs, lambda ref, obj: _change(session, chosen, verb, (ref, obj, wanted)))


def _change(
    session: Session, chosen: Any, verb: MetadataVerb, item: tuple[ObjectRef, JsonObject, EntryChanges]
) -> None:
    ref, obj, wanted = item
    present = map_at(obj, f"metadata.{verb.field}")
    if not chosen.overwrite:
        taken = [key for key, value in wanted.set.items() if present.get(key, value) != value]
        if taken:
            what = ", ".join(f"'{key}' already has a value ({present[key]})" for key in taken)
            many = f"--overwrite is false but found the following declared {verb.noun}(s): {what}"
            raise KubectlError(f"{what}, and --overwrite is false" if verb.noun == "label" else many)
    for key in wanted.removed:
        if key not in present:
            print_lines([f'{verb.noun} "{key}" not found.'])
    entries = {key: value for key, value in wanted.set.items() if present.get(key) != value}
    removed = [key for key in wanted.removed if key in present]
    done = verb.set if entries else verb.removed if removed else f"not {verb.set}"
    if entries or removed:
        obj = _patched(session, chosen, ref, verb.field, {**entries, **dict.fromkeys(removed)})
    if chosen.list:
        print_lines(f"{key}={value}" for key, value in sorted(map_at(obj, f"metadata.{verb.field}").items()))
    else:
        print_result(chosen, ref.resource, obj, done)


def _patched(session: Session, chosen: Any, ref: ObjectRef, field: str, entries: dict[str, Any]) -> JsonObject:
    metadata: dict[str, Any] = {field: entries}
    if chosen.resource_version:
        metadata["resourceVersion"] = chosen.resource_version
    if chosen.dry_run == "client":
        obj = session.client.get(ref.path)
        changed = {
            key: value for key, value in (map_at(obj, f"metadata.{field}") | entries).items() if value is not None
        }
        return obj | {"metadata": map_at(obj, "metadata") | {field: changed}}
    query = [("dryRun", "All")] if chosen.dry_run == "server" else []
    query += [("fieldManager", chosen.field_manager)] if chosen.field_manager else []
    return session.client.request("PATCH", ref.path, query, {"metadata": metadata}, MERGE_PATCH)


def _is_change(word: str) -> bool:
    return "=" in word or (word.endswith("-") and len(word) > 1)
