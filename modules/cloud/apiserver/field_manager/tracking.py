"""The managers of an object after an update or an apply (structured-merge-diff's `Updater`)."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from beehive.nesting import read_json
from modules.apimachinery.api_errors import ApiError, BadRequestError
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, metadata_of
from modules.cloud.apiserver.field_manager.last_applied import CLIENTS, KUBECTL
from modules.cloud.apiserver.field_manager.managed_fields import (
    UPDATE,
    Entries,
    Managed,
    Manager,
    encoded,
    is_reset,
    read_entries,
    with_entries,
    written_entries,
)
from modules.cloud.apiserver.field_manager.paths import NOTHING, FieldSet, Path, path_text
from modules.cloud.apiserver.field_manager.shapes import FieldShape
from modules.cloud.apiserver.field_manager.values import (
    Comparison,
    DuplicateKeysError,
    compared,
    fields_of,
    merged,
    with_named,
    without,
)

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""The manager of all fields of an object that had no managers when it was first applied."""
_OF_SERVER: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields",
                     "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
    }
)  # fmt: skip
"""Fields that no manager has."""
_NAMED: Final[FieldSet] = frozenset({("f:metadata", "f:name")})
"""What every manifest sets, though nobody manages it: metadata stay when a manager gives up the rest of them."""
_STATUS: Final = "status"
_RESET: Final[dict[str, dict[str, tuple[Path, ...]]]] = {
    "CertificateSigningRequest": {
        "": (("f:spec",), ("f:status",)),
        _STATUS: (("f:spec",), ("f:status", "f:conditions")),
        "approval": (("f:spec",), ("f:status", "f:certificate")),
    },
    "Deployment": {_STATUS: (("f:spec",), ("f:metadata", "f:labels"))},
    "Pod": {_STATUS: (("f:spec",), ("f:metadata", "f:ownerReferences"))},
    "VolumeAttachment": {_STATUS: (("f:spec",), ("f:metadata",))},
}
"""By kind and subresource: the fields that a request cannot set, so that it does not manage them (GetResetFields);
without a row, a request for the object cannot set its status, and a request for the status cannot set the spec.
"""
_MOST: Final = 100
"""Conflicts that are named."""
_LONGEST: Final = 300
"""Characters of a path."""


def _reset(kind: str, subresource: str, *, has_status: bool) -> tuple[Path, ...]:
    """Return the fields that a request cannot set, besides the server's."""
    if not has_status:
        return ()
    of_kind = _RESET.get(kind, {}).get(subresource)
    return of_kind or ((("f:spec",),) if subresource == _STATUS else (("f:status",),))


class ApplyConflictError(ApiError):
    """Other managers have set the fields of a manifest to other values.

    Args:
        conflicts: the managers, and the fields of each.
    """

    code = 409
    reason = "Conflict"

    def __init__(self, conflicts: Iterable[tuple[Managed, Iterable[Path]]]) -> None:
        all_ = [(_described(one), path_text(path)[:_LONGEST]) for one, paths in conflicts for path in sorted(paths)]
        named = all_[:_MOST]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {of}", "field": path} for of, path in named
        ]
        if len(all_) == 1:
            message = f"Apply failed with 1 conflict: conflict with {all_[0][0]}: {all_[0][1]}"
        else:
            by_manager: dict[str, list[str]] = {}
            for of, path in named:
                by_manager.setdefault(of, []).append(path)
            lines = [
                line for of, paths in sorted(by_manager.items())
                for line in (f"conflicts with {of}:", *(f"- {path}" for path in paths))
            ]  # fmt: skip
            message = f"Apply failed with {len(all_)} conflicts: " + "\n".join(lines)
        super().__init__("cannot apply a manifest", message, {"causes": causes})


def _described(one: Managed) -> str:
    of = one.manager
    told = f'"{of.name}"' + (f' with subresource "{of.subresource}"' if of.subresource else "")
    if of.operation != UPDATE:
        return told
    return f"{told} using {of.api_version}"


class Tracking:
    """The field managers of one kind's objects.

    Args:
        kind: its name; "" for one of a CustomResourceDefinition.
        shape: of the kind.
        has_status: whether its status is a subresource.
        now: the present time.
    """

    def __init__(self, kind: str, shape: FieldShape, now: str, *, has_status: bool) -> None:
        self._kind = kind
        self._shape = shape
        self._has_status = has_status
        self._now = now

    def updated(self, live: JsonObject | None, new: JsonObject, manager: Manager) -> JsonObject:
        """Return a new state of an object with the managers that it has after an update by one. An object that has had
        none gets none before it is applied. A client sets the managers in the object itself, not by its subresources.
        """
        if manager.subresource:
            entries = read_entries(live) or {}
        else:
            entries = {} if is_reset(new) else _given_or_live(live, new)
        if live is not None and not entries:
            return with_entries(new, None)
        before = _bare(live or {})
        comparison = self._compared(before, _bare(new), manager)
        entries = _without_changed(entries, comparison, manager)
        mine = entries.get(manager.identity)
        had = mine.fields if mine else NOTHING
        taken = comparison.modified | comparison.added
        entries = self._with(entries, manager, (had - comparison.removed) | taken, None if taken else mine)
        return with_entries(new, encoded(written_entries(entries), live))

    def applied(self, live: JsonObject | None, config: JsonObject, manager: Manager, *, force: bool) -> JsonObject:
        """Return the object that a server-side apply stores, with its managers.

        Raises:
            ApplyConflictError: other managers have other values, and it is not forced.
            BadRequestError: the manifest has two elements with the same keys, or managers.
        """
        if metadata_of(config).get("managedFields") is not None:
            raise BadRequestError("metadata.managedFields must be nil")
        try:
            return self._applied(live, config, manager, force=force)
        except DuplicateKeysError as error:
            raise BadRequestError(f"failed to create typed patch object: {error}") from error
        except ApplyConflictError:
            if manager.name != KUBECTL or live is None:
                raise
            return self._upgraded(live, config, manager)

    def _upgraded(self, live: JsonObject, config: JsonObject, manager: Manager) -> JsonObject:
        """Apply what kubectl has applied by itself before: fields of its annotation are its own, if nobody has changed
        them since (`lastAppliedManager`).
        """
        allowed = self._last_applied(live)
        conflicts = [
            (one, left) for one, paths in self._conflicts(live, config, manager) if (left := set(paths) - allowed)
        ]
        if conflicts:
            raise ApplyConflictError(conflicts)
        return self._applied(live, config, manager, force=True)

    def _last_applied(self, live: JsonObject) -> FieldSet:
        text = (metadata_of(live).get("annotations") or {}).get(LAST_APPLIED)
        try:
            last: Any = read_json(text) if text else None
            if not isinstance(last, dict):
                return NOTHING
            return fields_of(last, self._shape) - compared(last, live, self._shape).modified
        except ValueError:
            return NOTHING

    def _conflicts(self, live: JsonObject, config: JsonObject, manager: Manager) -> list[tuple[Managed, FieldSet]]:
        entries, new = self._merged(live, config, manager)
        return _conflicts(entries, self._compared(_bare(live), new, manager), manager)

    def _applied(self, live: JsonObject | None, config: JsonObject, manager: Manager, *, force: bool) -> JsonObject:
        entries, new = self._merged(live, config, manager)
        comparison = self._compared(_bare(live or {}), new, manager)
        conflicts = _conflicts(entries, comparison, manager)
        if conflicts and not force:
            raise ApplyConflictError(conflicts)
        mine = None if any(comparison) else (read_entries(live) or {}).get(manager.identity)
        entries = _without_changed(entries, comparison, manager)
        fields = entries[manager.identity].fields if manager.identity in entries else NOTHING
        return with_entries(new, encoded(written_entries(self._with(entries, manager, fields, mine)), live))

    def _merged(self, live: JsonObject | None, config: JsonObject, manager: Manager) -> tuple[Entries, JsonObject]:
        """Return the managers and the object after a merge, without what this manager has given up."""
        config = _bare(config)
        entries = dict(read_entries(live) or {})
        if live is not None and not entries:
            before = Manager(BEFORE_FIRST_APPLY, UPDATE, manager.subresource, manager.api_version)
            all_ = self._compared(_empty_like(live), _bare(live), before).added
            applied = all_ & self._last_applied(live) if manager.name in CLIENTS else NOTHING
            if applied:
                entries[manager.identity] = Managed(manager, applied, self._now)
            entries[before.identity] = Managed(before, all_ - applied, self._now)
        last = entries.get(manager.identity)
        fields = self._kept(fields_of(config, self._shape), manager)
        entries[manager.identity] = Managed(manager, fields, self._now)
        new = config if live is None else merged(_bare(live), config, self._shape)
        if last is None or last.fields <= fields:  # it has given up nothing
            return entries, new
        return entries, self._pruned(new, entries, last.fields)

    def _pruned(self, obj: JsonObject, entries: Entries, last: FieldSet) -> JsonObject:
        """Return an object without the fields that its manager had and nobody has now."""
        shape = self._shape
        ours = with_named(last, shape)
        pruned = without(obj, ours, shape, emptied=None)
        managed = with_named(_NAMED.union(*(one.fields for one in entries.values())), shape)
        there = with_named(fields_of(obj, shape), shape)
        pruned_fields = with_named(fields_of(pruned, shape), shape)
        pruned = without(obj, there - (pruned_fields | managed), shape, emptied=None)
        pruned_fields = with_named(fields_of(pruned, shape), shape)
        found: JsonObject = without(obj, (there - pruned_fields) & ours, shape)
        return found

    def _kept(self, fields: FieldSet, manager: Manager) -> FieldSet:
        """Return the fields that a request of a manager can set."""
        reset = _reset(self._kind, manager.subresource, has_status=self._has_status)
        return frozenset(one for one in fields if one[:1] not in reset and one[:2] not in reset) - _OF_SERVER

    def _compared(self, old: JsonObject, new: JsonObject, manager: Manager) -> Comparison:
        found = compared(old, new, self._shape)
        return Comparison(*(self._kept(one, manager) for one in found))

    def _with(self, entries: Entries, manager: Manager, fields: FieldSet, before: Managed | None) -> Entries:
        """Return the entries with those fields of a manager; its time stays if it had the same fields before."""
        others = {name: one for name, one in entries.items() if name != manager.identity}
        if not fields:
            return others
        time = before.time if before is not None and before.fields == fields else self._now
        return {**others, manager.identity: Managed(manager, fields, time)}


def _bare(obj: JsonObject) -> JsonObject:
    """Return an object without its managers."""
    return with_entries(obj, None) if "managedFields" in metadata_of(obj) else obj


def _empty_like(obj: JsonObject) -> JsonObject:
    """Return what there is in an empty object of a kind: plain members of a status, which Go's types never lack."""
    status = obj.get("status")
    plain = status.items() if isinstance(status, dict) else ()  # a custom object's may be anything
    return {"metadata": {}, "status": {name: value for name, value in plain if value in (0, "")}}


def _given_or_live(live: JsonObject | None, new: JsonObject) -> Entries:
    """Return the entries that a client has set, or the stored ones if it has set none that can be read."""
    return read_entries(new) or read_entries(live) or {}


def _conflicts(entries: Entries, comparison: Comparison, manager: Manager) -> list[tuple[Managed, FieldSet]]:
    changed = comparison.modified | comparison.added
    found = ((one, one.fields & changed) for name, one in entries.items() if name != manager.identity)
    return [(one, paths) for one, paths in found if paths]


def _without_changed(entries: Entries, comparison: Comparison, manager: Manager) -> Entries:
    """Return the entries without the fields that a manager has taken over from others or removed."""
    gone = comparison.modified | comparison.added | comparison.removed
    left: dict[tuple[str, str, str, str], Managed] = {}
    for name, one in entries.items():
        fields = one.fields if name == manager.identity else one.fields - gone
        if fields:
            left[name] = msgspec.structs.replace(one, fields=fields)
    return left
