"""Strategic merge patches and JSON merge patches.

A strategic merge patch is a partial object. Objects are merged field by field, `null` removes a field, and lists follow
the schema: merged element by element on a key, merged as a set, or replaced. A patch may have these directives, which
Kubernetes documents under "Strategic Merge Patch", and which edged's kubelet code sends:

* `$patch: replace | delete | merge` in an object or as an element of a merged list,
* `$setElementOrder/LIST`: the order of the merged list,
* `$deleteFromPrimitiveList/LIST`: values to remove from a set,
* `$retainKeys`: the only keys that an object keeps.

All functions are pure: they never change their arguments, and the result shares nothing with the patch. Their time is
linear in the object and the patch, as nodes choose the length of lists.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.merge_schema import PLAIN, MergeField, MergeSchema

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"


def merge_strategic(original: JsonObject, patch: JsonObject, schema: MergeSchema) -> JsonObject:
    """Return the original with a strategic merge patch applied.

    Raises:
        BadRequestError: the patch has an unknown directive, or does not have the object's form.
    """
    directive = patch.get(_PATCH)
    if directive == "replace":
        return _clean_object({key: value for key, value in patch.items() if key != _PATCH})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequestError(f"unknown patch directive {directive!r}: replace, delete or merge is wanted")
    result, fields, directives = _retained(original, patch), schema.fields, []
    for name, value in patch.items():
        if name.startswith("$") and (listed := _field_named_by(name)) != name:
            directives.append(listed)
        elif value is None:
            result.pop(name, None)
        elif (field := fields.get(name, PLAIN)) is not PLAIN and (field.merge_key or field.is_set):
            _merge_field(result, patch, name, field)
        elif isinstance(value, dict):
            old = result.get(name)
            result[name] = merge_strategic(old if isinstance(old, dict) else {}, value, field.schema)
        else:
            result[name] = _clean(value) if isinstance(value, list) else value
    for name in directives:
        if name and name not in patch:
            _merge_field(result, patch, name, fields.get(name, PLAIN))
    return result


def merge_json(original: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the original with a JSON merge patch (RFC 7396) applied: lists are replaced, `null` removes a field."""
    result = dict(original)
    for key, value in patch.items():
        old = original.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge_json(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = copied(value)
    return result


def _field_named_by(key: str) -> str:
    """Return the field that a key of a patch concerns; "" for directives about the whole object."""
    for prefix in (_ORDER, _DELETE_VALUES):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return "" if key in (_PATCH, _RETAIN_KEYS) else key


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    if _RETAIN_KEYS not in patch:
        return dict(original)
    keep = {key for key in _list_of(patch[_RETAIN_KEYS], _RETAIN_KEYS) if isinstance(key, str)}
    extra = [key for key in patch if not key.startswith("$") and patch[key] is not None and key not in keep]
    if extra:
        raise BadRequestError(f"the patch sets {extra[0]!r}, which its $retainKeys does not list")
    return {key: value for key, value in original.items() if key in keep}


def _merge_field(result: JsonObject, patch: JsonObject, name: str, field: MergeField) -> None:
    """Apply the patch's elements and directives for one list to the result."""
    if not field.merge_key and not field.is_set:
        return
    old = result.get(name)
    if not _is_about_list(patch, name):
        raise BadRequestError(f"{name}: the patch has no list where the object has one")
    if old is None and not {_ORDER + name, _DELETE_VALUES + name} & patch.keys():
        result[name] = _clean(patch[name])
        return
    merged = _merge_set(old or [], patch, name) if field.is_set else _merge_list(old or [], patch, name, field)
    if old is not None or merged or name in patch:
        result[name] = merged


def _is_about_list(patch: JsonObject, name: str) -> bool:
    return name not in patch or isinstance(patch[name], list)


def _merge_set(old: list[Any], patch: JsonObject, name: str) -> list[Any]:
    removed = _list_of(patch.get(_DELETE_VALUES + name, []), _DELETE_VALUES + name)
    taken_out = {_identity(value) for value in removed}
    kept = [value for value in old if _identity(value) not in taken_out]
    there = {_identity(value) for value in kept}
    given = patch.get(name, [])
    added = [value for value in given if _identity(value) not in there]
    order = _list_of(patch.get(_ORDER + name, given), _ORDER + name)
    values = [(_identity(value), value) for value in kept + added]
    ordered = _ordered([one for one, _ in values], [_identity(one) for one in order], [_identity(one) for one in old])
    by_identity = {**{_identity(value): value for value in order}, **dict(values)}
    return [by_identity[identity] for identity in ordered]


def _merge_list(old: list[Any], patch: JsonObject, name: str, field: MergeField) -> list[Any]:
    elements = _objects(patch.get(name, []), name)
    key = field.merge_key
    directives = [element.get(_PATCH) for element in elements]
    if "replace" in directives:
        return [_clean_object(e) for e, directive in zip(elements, directives, strict=True) if directive != "replace"]
    before = [_key_of(element, key, name) for element in _objects(old, name)]
    merged = dict(zip(before, old, strict=True))
    for element, directive in zip(elements, directives, strict=True):
        identity = _key_of(element, key, name)
        if directive == "delete":
            merged.pop(identity, None)
        else:
            merged[identity] = merge_strategic(merged.get(identity, {}), element, field.schema)
    given = _objects(patch.get(_ORDER + name, elements), _ORDER + name)
    order = [_key_of(e, key, name) for e in given]
    return [merged[identity] for identity in _ordered(list(merged), order, before)]


def _ordered(values: list[Hashable], order: list[Hashable], before: list[Hashable]) -> list[Hashable]:
    """Return the values in the patch's order; those only in the original keep their place relative to their old
    neighbours, or follow.
    """
    if not order or order == values:
        return values
    present, placed = set(values), set(order)
    listed = deque(value for value in order if value in present)
    others = deque(value for value in values if value not in placed)
    place = {value: at for at, value in reversed(list(enumerate(before)))}
    result: list[Hashable] = []
    while listed and others:
        first, second = place.get(others[0]), place.get(listed[0])
        in_front = first is not None and second is not None and first < second
        result.append((others if in_front else listed).popleft())
    return [*result, *listed, *others]


def _key_of(element: JsonObject, key: str, name: str) -> Hashable:
    value = element.get(key)
    if isinstance(value, str):
        return value
    if not isinstance(value, int):
        raise BadRequestError(f"{name}: an element has no {key!r}, by which the list is merged")
    return _identity(value)


def _identity(value: Any) -> Hashable:
    """Return a key that is equal for equal JSON values, and whose hash cannot be made to collide.

    Python hashes a number to itself, and text with a secret, so numbers are represented by their digits.
    """
    if isinstance(value, float) and not value.is_integer():
        return (value.hex(),)
    if isinstance(value, int | float):
        return (hex(int(value)),)
    if isinstance(value, list):
        return ("[", *map(_identity, value))
    if isinstance(value, dict):
        return frozenset((key, _identity(member)) for key, member in value.items())
    return value if isinstance(value, str) else None


def _objects(value: Any, name: str) -> list[JsonObject]:
    elements = _list_of(value, name)
    for element in elements:
        if not isinstance(element, dict):
            raise BadRequestError(f"{name}: a list of objects is wanted")
    return elements


def _list_of(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequestError(f"{name}: a list is wanted")
    return value


def _clean(value: Any) -> Any:
    """Return a new value of the patch as it is stored: without directives and null fields."""
    if isinstance(value, dict):
        return _clean_object(value)
    if isinstance(value, list):
        return [_clean(element) for element in _without_deleted(value)]
    return value


def _clean_object(obj: JsonObject) -> JsonObject:
    return {
        key: _clean(value) if isinstance(value, (dict, list)) else value
        for key, value in obj.items()
        if value is not None and not key.startswith("$")
    }


def _without_deleted(elements: list[Any]) -> Iterable[Any]:
    return (e for e in elements if not (isinstance(e, dict) and e.get(_PATCH) in ("delete", "replace")))
