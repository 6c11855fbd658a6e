"""Field sets of values: the fields of a value, the differences of two values, the results of merges and removals."""

from typing import Any, NamedTuple

from modules.apimachinery.conversion import copied
from modules.cloud.apiserver.field_manager.paths import SELF, FieldSet, Path, field, keyed, path_text, tree, valued
from modules.cloud.apiserver.field_manager.shapes import FieldShape, MergeForm

_ABSENT: Any = object()
_Parts = tuple[list[Path], list[Path], list[Path]]
"""Paths that are added, modified and removed."""
_PLAIN = frozenset({
    "metadata", "spec", "status", "template", "jobTemplate", "containers", "strategy", "updateStrategy", "names",
    "source", "resources", "drivers", "podSelector", "scaleTargetRef",
})  # fmt: skip
"""Fields that are there in every object of Go's types, so that nobody sets them as such."""


class DuplicateKeysError(ValueError):
    """A list has two elements with the same keys, or one without its keys."""


class Comparison(NamedTuple):
    """The differences of a value from an older one."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def element_of(value: Any, shape: FieldShape, form: MergeForm, where: Path = ()) -> str:
    """Return the path element of a list's element.

    Raises:
        DuplicateKeysError: it lacks a key.
    """
    if form is MergeForm.SET:
        return valued(value)
    defaults = shape.defaults()
    given = value if isinstance(value, dict) else {}
    keys = {key: given.get(key, defaults.get(key)) for key in shape.keys}
    found = {key: one for key, one in keys.items() if one is not None}
    if not found or any(isinstance(one, dict | list) for one in found.values()):
        raise DuplicateKeysError(
            f"{path_text(where)[:200]}: associative list with keys has an element that omits key field(s)"
        )
    return keyed(found)


def fields_of(value: Any, shape: FieldShape) -> FieldSet:
    """Return the set of fields that a manifest has (`ToFieldSet`). An empty list that is not atomic is none.

    Raises:
        DuplicateKeysError: an element of a list lacks its keys.
    """
    found: list[Path] = []
    waiting: list[tuple[Any, FieldShape, Path]] = [(value, shape, ())]
    while waiting:
        one, of, path = waiting.pop()
        form = of.form(one)
        if form is MergeForm.LEAF or (form is MergeForm.MAP and not one):
            found += [path] if path else []
        elif form is MergeForm.MAP:
            for name, member in one.items():
                below = (*path, field(name))
                waiting.append((member, of.field(name), below))
                if not of.is_named(name):
                    found.append(below)
        else:
            for member in one:
                below = (*path, element_of(member, of, form, path))
                found.append(below)
                if form is MergeForm.KEYED:
                    waiting.append((member, of.element(), below))
    return frozenset(found)


def compared(old: Any, new: Any, shape: FieldShape) -> Comparison:
    """Return the difference of a new value from an old one."""
    parts: _Parts = ([], [], [])
    _compare(old, new, shape, (), parts)
    added, modified, removed = map(frozenset, parts)
    return Comparison(added, modified, removed)


def _compare(
    old: Any, new: Any, shape: FieldShape, path: Path, parts: tuple[list[Path], list[Path], list[Path]]
) -> None:
    if old is new:
        return
    added, modified, removed = parts
    forms = [shape.form(one) for one in (old, new) if one is not _ABSENT]
    form, is_other = forms[0], forms[0] is not forms[-1]
    empty = (old is _ABSENT or not old) and (new is _ABSENT or not new)
    if is_other and None not in (old, new) and not shape.has_plain:  # of other types, which a schema of its own allows
        _compare(old, _ABSENT, shape, path, parts)
        _compare(_ABSENT, new, shape, path, parts)
        return
    if is_other or form is MergeForm.LEAF or empty:
        is_map = isinstance(new if old is _ABSENT else old, dict)
        if empty and path and is_map and shape.has_plain and _is_plain(path):
            return
        if old is _ABSENT or new is _ABSENT:
            (added if old is _ABSENT else removed).append(path)
        elif old != new:
            modified.append(path)
        return
    for element, before, after in _pairs(old, new, shape, form, path):
        below = shape.field(element[2:]) if form is MergeForm.MAP else shape.element()
        if form is MergeForm.SET:
            if before is _ABSENT or after is _ABSENT:
                (added if before is _ABSENT else removed).append((*path, element))
        else:
            _compare(before, after, below, (*path, element), parts)
    if path and not (shape.has_plain and _is_plain(path)) and (old is _ABSENT or new is _ABSENT):
        (added if old is _ABSENT else removed).append(path)


def _is_plain(path: Path) -> bool:
    """Return whether an empty object has a field, too; fields of a list's elements never are."""
    return path[-1][2:] in _PLAIN and all(step.startswith("f:") for step in path)


def _pairs(old: Any, new: Any, shape: FieldShape, form: MergeForm, path: Path) -> list[tuple[str, Any, Any]]:
    before = _by_element(old, shape, form, path)
    after = _by_element(new, shape, form, path)
    names = dict.fromkeys((*before, *after))
    return [(name, before.get(name, _ABSENT), after.get(name, _ABSENT)) for name in names]


def _by_element(value: Any, shape: FieldShape, form: MergeForm, path: Path) -> dict[str, Any]:
    """Return the members of a value by their elements; the first one of several with the same."""
    if value is _ABSENT:
        return {}
    if form is MergeForm.MAP:
        return {field(name): member for name, member in value.items()}
    return dict(reversed(_elements(value, shape, form, path)))


def _elements(value: list[Any], shape: FieldShape, form: MergeForm, path: Path) -> list[tuple[str, Any]]:
    """Return the elements of a stored list, which may lack keys: those are identified by their places."""
    found: list[tuple[str, Any]] = []
    for index, member in enumerate(value):
        try:
            found.append((element_of(member, shape, form, path), member))
        except DuplicateKeysError:
            found.append((f"i:{index}", member))
    return found


def merged(live: Any, config: Any, shape: FieldShape, path: Path = ()) -> Any:
    """Return a live value with the fields of a manifest; it shares nothing with the manifest.

    Raises:
        DuplicateKeysError: the manifest has two elements with the same keys in a list.
    """
    form = shape.form(config)
    if form is MergeForm.LEAF or shape.form(live) is not form or not config:
        if form in (MergeForm.KEYED, MergeForm.SET):
            _elements_of_config(config, shape, form, path)
        is_none = config is None or (not config and shape.form(live) is form)
        is_kept = live and is_none and shape.form(live) is not MergeForm.LEAF
        return live if is_kept else _checked_copy(config, shape, path)
    if form is MergeForm.MAP:
        result = dict(live)
        for name, value in config.items():
            below = (*path, field(name))
            result[name] = merged(result.get(name), value, shape.field(name), below)
        return result
    ours = _elements_of_config(config, shape, form, path)
    listed = _elements(live, shape, form, path)
    theirs, below_shape = dict(reversed(listed)), shape.element()
    return [
        listed[at][1] if at >= 0 else merged(theirs.get(name), ours[name], below_shape, (*path, name))
        for name, at in _merged_order([name for name, _ in listed], list(ours))
    ]


def _checked_copy(config: Any, shape: FieldShape, path: Path) -> Any:
    """Return a copy of a manifest's value, whose lists have no element twice."""
    form = shape.form(config)
    if form is MergeForm.MAP:
        return {name: _checked_copy(value, shape.field(name), (*path, field(name))) for name, value in config.items()}
    if form is MergeForm.KEYED:
        ours = _elements_of_config(config, shape, form, path)
        return [_checked_copy(value, shape.element(), (*path, name)) for name, value in ours.items()]
    return copied(config)


def _elements_of_config(config: list[Any], shape: FieldShape, form: MergeForm, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member in config:
        element = element_of(member, shape, form, path)
        if element in found:
            place = path_text(path)[:200]
            raise DuplicateKeysError(f"{place}: duplicate entries for key {path_text((element,))[:200]}")
        found[element] = member
    return found


def _merged_order(live: list[str], config: list[str]) -> list[tuple[str, int]]:
    """Return the order of a merged list: the manifest's order, with the live elements in their places between. Each
    element comes with its place in the live list; -1 for one of the manifest.
    """
    wanted, there = set(config), set(live)
    shared = [name for name in config if name in there]
    result: list[tuple[str, int]] = []
    placed: set[str] = set()
    left = right = turn = 0
    while left < len(live) or right < len(config):
        if left < len(live) and right < len(config):
            if live[left] == config[right]:
                result.append((live[left], -1))
                placed.add(live[left])
                left, right, turn = left + 1, right + 1, turn + 1
                continue
            if live[left] in wanted and turn < len(shared) and shared[turn] != live[left]:
                left += 1
                continue
        if left < len(live):
            if live[left] not in wanted:
                result.append((live[left], left))
                left += 1
                continue
            if live[left] in placed:
                left += 1
        if right < len(config):
            result.append((config[right], -1))
            placed.add(config[right])
            turn += turn < len(shared) and shared[turn] == config[right]
            right += 1
    return result


def without(value: Any, gone: FieldSet, shape: FieldShape, *, emptied: Any = _ABSENT) -> Any:
    """Return a value without a set of fields.

    Args:
        value: the value.
        gone: the fields.
        shape: of the value.
        emptied: what takes the place of an object or list that becomes empty by it; it goes, too, by default.
    """
    found = _without(value, tree(gone), shape, emptied) if gone else value
    return {} if found is emptied else found


def _without(value: Any, gone: Any, shape: FieldShape, emptied: Any) -> Any:
    form = shape.form(value)
    if form is MergeForm.LEAF:
        return value
    if not value:
        return value
    if form is MergeForm.MAP:
        kept: dict[str, Any] = {}
        for name, member in value.items():
            below = gone.get(field(name), ())
            if SELF in below:
                continue
            left = _without(member, below, shape.field(name), emptied) if below else member
            if left is not _ABSENT:
                kept[name] = left
        return kept or emptied
    left_over = []
    for element, member in _elements(value, shape, form, ()):
        below = gone.get(element, ())
        if SELF in below:
            continue
        left = _without(member, below, shape.element(), emptied) if below else member
        left_over += [{}] if left is emptied else [left]
    return left_over or emptied


def with_named(paths: FieldSet, shape: FieldShape) -> FieldSet:
    """Return a set with the fields that lead to its paths and have a name in the schema
    (`EnsureNamedFieldsAreMembers`).
    """
    found = set(paths)
    _add_named(tree(paths), shape, (), found)
    return frozenset(found)


def _add_named(node: Any, shape: FieldShape, path: Path, found: set[Path]) -> None:
    for element, below in node.items():
        if element == SELF:
            continue
        name = element[2:]
        if element.startswith("f:"):
            if shape.is_named(name):
                found.add((*path, element))
            _add_named(below, shape.field(name), (*path, element), found)
        else:
            _add_named(below, shape.element(), (*path, element), found)
