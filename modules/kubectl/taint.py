"""`taint`: sets and removes taints of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, objects_at
from modules.cli.errors import KubectlError, UsageError
from modules.cli.rest import MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import Listing, ObjectRef, change_each, find
from modules.kubectl.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class TaintChange(NamedTuple):
    """A taint that is set or removed."""

    key: str
    value: str
    effect: str
    """Empty: of all effects, when it is removed."""
    removed: bool = False


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("words", nargs="*", metavar="node NAME… KEY[=VALUE]:EFFECT[-]…", help="what changes")
    arguments.add_selectors(parser, fields=False)
    arguments.add_output(parser)
    arguments.add_dry_run(parser)
    parser.flag("--all", text="all nodes")
    parser.flag("--overwrite", text="change a taint that is there already")
    parser.add_argument("--field-manager", default="", metavar="NAME", help="who changes it")
    parser.absent("--validate", "the server validates all that it is sent")


def run(session: Session, chosen: Any) -> int:
    """Change the taints; return 1 when a node's taints were not changed."""
    first = next((place for place, word in enumerate(chosen.words) if _is_change(word)), len(chosen.words))
    wanted = [read_taint(word) for word in chosen.words[first:]]
    if not wanted:
        raise UsageError("at least one taint update is required: KEY=VALUE:NoSchedule sets, KEY:NoSchedule- removes")
    chosen.words = chosen.words[:first]
    refs = find(session, chosen, verb="taint")
    if any(each.resource.key_kind != "Node" for each in refs):
        raise UsageError("only nodes have taints")
    if any(isinstance(each, Listing) for each in refs) and not (chosen.all or chosen.selector):
        raise UsageError("names of nodes are wanted, or -l or --all")
    return change_each(session, refs, lambda ref, node: _change(session, chosen, ref, node, wanted))


def read_taint(word: str) -> TaintChange:
    """Return the change in `key=value:NoSchedule`, `key:NoSchedule-` or `key-`.

    Raises:
        UsageError: it has another form.
    """
    text, removed = word.removesuffix("-"), word.endswith("-")
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in (*_EFFECTS, *([""] if removed else [])):
        raise UsageError(f"invalid taint spec: {word}; KEY=VALUE:EFFECT, where EFFECT is one of {', '.join(_EFFECTS)}")
    return TaintChange(key, value, effect, removed)


def changed(
    node: str, taints: Sequence[JsonObject], wanted: Sequence[TaintChange], *, overwrite: bool
) -> list[JsonObject]:
    """Return the taints of a node after changes; `node` names it in errors.

    Raises:
        KubectlError: a taint is there already, or a removed one is not.
    """
    result = list(taints)
    for change in wanted:
        same = [each for each in result if each.get("key") == change.key and change.effect in ("", each.get("effect"))]
        if change.removed and not same:
            raise KubectlError(f'taint "{change.key}{":" if change.effect else ""}{change.effect}" not found')
        if not change.removed and not overwrite and any((each.get("value") or "") != change.value for each in same):
            raise KubectlError(f"{node} already has {change.key} taint(s) with same effect(s) and --overwrite is false")
        result = [each for each in result if each not in same]
        if not change.removed:
            taint = {"key": change.key, "value": change.value, "effect": change.effect}
            result.append({name: text for name, text in taint.items() if text})
    return result


def _change(session: Session, chosen: Any, ref: ObjectRef, node: JsonObject, wanted: Sequence[TaintChange]) -> None:
    before = objects_at(node, "spec.taints")
    after = changed(f"node {ref.name}", before, wanted, overwrite=chosen.overwrite)
    if after != before and chosen.dry_run != "client":
        query = [("dryRun", "All")] if chosen.dry_run == "server" else []
        query += [("fieldManager", chosen.field_manager)] if chosen.field_manager else []
        body = {"spec": {"taints": after or None}}
        node = session.client.request("PATCH", ref.path, query, body, MERGE_PATCH)
    done = "untainted" if all(change.removed for change in wanted) else "tainted"
    print_result(chosen, ref.resource, node, done if after != before else f"not {done}")


def _is_change(word: str) -> bool:
    return ":" in word or word.endswith("-")
