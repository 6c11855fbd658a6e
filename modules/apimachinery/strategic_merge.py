"""Strategic merge patches and JSON merge patches.

A strategic merge patch is a partial object. Objects are merged field by field, `null` removes a field, and lists follow
the schema: merged element by element on a key, merged as a set, or replaced. A patch may have these directives, which
Kubernetes documents under "Strategic Merge Patch", and which kubectl and edged's kubelet code send:

* `$patch: replace | delete` in an object or as an element of a merged list,
* `$setElementOrder/LIST`: the order of the merged list,
* `$deleteFromPrimitiveList/LIST`: values to remove from a list,
* `$retainKeys`: the only keys that an object keeps.

The results are those of apimachinery's `strategicpatch`, also where a list has several elements with one key (the first
one is merged) and where a directive stands in a new object (which is then left out). It differs in three ways: a
directive that API servers store, or drop while they decode the result, is left out of what is stored; objects are
merged also below fields without a type; and a patch that cannot be merged is always the client's fault (400).

All functions are pure: they never change their arguments, and the result shares nothing with the patch. Their time is
linear in the object and the patch, but for sorting, as nodes choose the length of lists.
"""

from collections.abc import Hashable
from itertools import repeat
from operator import contains, methodcaller
from typing import Any, Final, NamedTuple

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.go_values import go_text
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.merge_schema import MERGE, PLAIN, REPLACE, MergeField, MergeSchema

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList"
_DELETE: Final = "delete"
_PLAIN: Final = frozenset({str, int, float, bool})
"""Types of most values: a patch's value takes the place of the old one, whatever that is."""
_COMPARABLE: Final = {str, type(None)}
"""Types of values that are the same if they are equal, unlike `true` and 1."""
_LONGEST: Final = 200
"""Characters of a value in an error."""


def merge_strategic(original: JsonObject, patch: JsonObject, schema: MergeSchema) -> JsonObject:
    """Return the original with a strategic merge patch applied.

    Raises:
        BadRequestError: the patch has an unknown directive, or does not have the object's form.
    """
    if _PATCH in patch:
        return _by_directive(patch)
    result = _retained(original, patch) if _RETAIN_KEYS in patch else dict(original)
    ordered = set[str]()
    for key, order in patch.items():
        if key[:1] == "$" and key.startswith(_ORDER):
            name = _named_by(key, "setElementOrder")
            ordered.add(name)
            _merge_ordered(result, patch, name, order, schema.fields.get(name) or schema.values or PLAIN)
    for key, value in patch.items():
        if type(value) in _PLAIN and key[:1] != "$" and key not in ordered:
            result[key] = value
            continue
        if key in ordered or key == _RETAIN_KEYS or key.startswith(_ORDER):
            continue
        removes = key.startswith(_DELETE_VALUES)
        name = _named_by(key, "primitive") if removes else key
        if value is None:
            result.pop(name, None)
        elif name in result and type(result[name]) is type(value):
            field = schema.fields.get(name) or schema.values or PLAIN
            result[name] = _merged(result[name], value, field, removes=removes)
        elif _has_directive(value) and not removes:
            result.pop(name, None)
        elif not removes:
            result[name] = _new(value)
    return result


def merge_json(original: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the original with a JSON merge patch (RFC 7396) applied: lists are replaced, `null` removes a field, and
    objects in the patch's lists lose those that are null (evanphx/json-patch).
    """
    result = dict(original)
    for key, value in patch.items():
        old = original.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge_json(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    """Return a value of a JSON merge patch as it is stored."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return merge_json({}, value) if isinstance(value, dict) else value


def _by_directive(patch: JsonObject) -> JsonObject:
    """Return what the directive of an object's patch makes of the object."""
    match patch[_PATCH]:
        case "replace":
            found: JsonObject = _stored(patch)
            return found
        case "delete":
            return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: JsonObject) -> BadRequestError:
    return BadRequestError(f"unknown patch type: {_shown(patch[_PATCH])} in map: {_shown(patch)}")


def _named_by(key: str, kind: str) -> str:
    """Return the field that a directive is about."""
    directive, slash, name = key.partition("/")
    if directive not in (_ORDER, _DELETE_VALUES) or not slash:
        raise BadRequestError(f"invalid patch format of {kind} list")
    return name


def _retained(original: JsonObject, patch: JsonObject) -> JsonObject:
    """Return an object with the keys only that the patch lets it keep."""
    kept = patch[_RETAIN_KEYS]
    keep = {key for key in kept if isinstance(key, str)} if isinstance(kept, list) else set()
    given = {
        key for key, value in patch.items()
        if value is not None and key != _RETAIN_KEYS and not key.startswith((_ORDER, _DELETE_VALUES))
    }  # fmt: skip
    if not isinstance(kept, list) or not given <= keep:
        raise BadRequestError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in keep}


def _merge_ordered(result: JsonObject, patch: JsonObject, name: str, order: Any, field: MergeField) -> None:
    """Merge the patch's elements of a list, if there are any, into the result, in the order of a directive."""
    old, new = result.get(name), patch.get(name)
    if type(old) is type(new) is type(order) is list and (alike := _merged_alike(old, new, field, order)) is not None:
        result[name] = alike
        return
    order = _list_of(order)
    old = _list_of(old) if name in result else None
    new = _list_of(new) if name in patch else None
    _check_order(new or [], order, field.merge_key)
    if old is None and new is None:
        return
    if old is None or new is None:
        found = _Elements(_new(new) if old is None else old, old or [])
    elif field.strategy == MERGE:
        found = _merged_list(old, new, field)
    else:
        found = _Elements(_stored(new), old)
    _check_types([*(old or []), *(new or [])])
    result[name] = _arranged(found, order, field.merge_key)


def _check_order(new: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that the order of a directive has the patch's elements, one after the other."""
    keys = _texts_of(new, merge_key)
    if not new or (keys is not None and keys == _texts_of(order, merge_key)):
        return
    elements = [each for each in new if not merge_key or _object(each).get(_PATCH) != _DELETE]
    at = place = 0
    while at < len(elements) and place < len(order):
        if _has_directive(elements[at]):
            at += 1
            continue
        at += _key_of(elements[at], merge_key) == _key_of(order[place], merge_key)
        place += 1
    if at < len(elements) and place == len(order) and order:
        mismatch = f" doesn't match {_ORDER} list:\n{_shown(order)}\n"
        raise BadRequestError(f"The order in patch list:\n{_shown(new)}\n{mismatch}")


_Placed = tuple[int, int, Hashable, Any]
"""An element with its place in another list, its own place, which is no other's, and its key."""


class _Elements(NamedTuple):
    """The elements of a merged list before they are put in order.

    Args:
        merged: the elements.
        places: the list whose order elements have that no other order is about.
    """

    merged: list[Any]
    places: list[Any]


def _merged(old: Any, new: Any, field: MergeField, *, removes: bool) -> Any:
    """Return a value with a patch's value of the same type.

    Args:
        old: the value.
        new: the patch's value.
        field: the strategy.
        removes: whether the elements of the patch's value are removed from a list of plain values.
    """
    if isinstance(old, dict):
        return _stored(new) if field.strategy == REPLACE else merge_strategic(old, new, field.schema)
    if not isinstance(old, list) or not (removes or field.strategy == MERGE):
        return _stored(new)
    if not old and not new:
        return old
    alike = None if removes else _merged_alike(old, new, field)
    if alike is not None:
        return alike
    if removes and _check_types([*old, *new]) is not dict:
        gone = {_identity(each) for each in new}
        return [each for each in old if _identity(each) not in gone]
    found = _merged_list(old, new, field)
    return found.merged


def _merged_list(old: list[Any], new: list[Any], field: MergeField) -> _Elements:
    """Return a list with the elements of a patch's list, in that list's order, and the places of the elements for
    another order. Go appends to the array that the old list is in: after removals, that list has new elements.
    """
    key = field.merge_key
    if not old and not new:
        return _Elements([], [])
    if _check_types([*old, *new]) is not dict:
        both = [*new[::-1], *old[::-1]]
        values = dict(zip(_keys_of(both, key), both, strict=True))
        return _Elements(_arranged(_Elements([*values.values()], old), new, key), old)
    if not key:
        raise BadRequestError("cannot merge lists without merge key for struct")
    elements = [each for each in new if _PATCH not in each]
    removed, is_replaced = _removed(new, key)
    if is_replaced:
        return _Elements(_arranged(_Elements(_stored(elements), elements), [], key), old)
    merged = [each for each in old if not removed or key not in each or _identity(each[key]) not in removed]
    keys, given = _keys_of(merged, key), _keys_of(elements, key)
    places = _first_places(keys)
    kept = merged[:]
    for identity, each in zip(given, elements, strict=True):
        at = places.setdefault(identity, len(merged))
        if at < len(merged):
            merged[at] = merge_strategic(merged[at], each, field.schema)
        else:
            merged.append(_stored(each))
    return _Elements(_arranged(_Elements(merged, kept), elements, key), merged[: len(old)])


def _merged_alike(
    old: list[Any], new: list[Any], field: MergeField, order: list[Any] | None = None
) -> list[Any] | None:
    """Return a list merged with a patch's list that has the same elements in the same order, which is that of a
    directive as well, and no directive, as the conditions of most statuses; None for other lists.
    """
    merge_key = field.merge_key
    if field.strategy != MERGE or not merge_key or len(old) != len(new):
        return None
    if {*map(type, old), *map(type, new), *map(type, order or ())} != {dict}:
        return None
    key_of = methodcaller("get", merge_key)
    keys = [*map(key_of, new)]
    if {*map(type, keys)} != {str} or keys != [*map(key_of, old)] or len({*keys}) != len(keys):
        return None
    if (order is not None and keys != [*map(key_of, order)]) or any(map(contains, new, repeat(_PATCH))):
        return None
    merged = []
    for each, part in zip(old, new, strict=True):
        values = part.values()
        is_same = [*map(each.get, part)] == [*values] and {*map(type, values)} <= _COMPARABLE
        if is_same and "$" not in "".join(part) and None not in each.values():  # nobody has to look at it
            merged.append(each)
        else:
            merged.append(merge_strategic(each, part, field.schema))
    return merged


def _removed(new: list[JsonObject], merge_key: str) -> tuple[set[Hashable], bool]:
    """Return the keys of the elements that directives of a patch's list remove, and whether it replaces the list."""
    removed, is_replaced = set[Hashable](), False
    for each in new:
        match each.get(_PATCH, ""):
            case "":
                pass
            case "delete":
                removed.add(_key_of(each, merge_key))
            case "replace":
                is_replaced = True
            case "merge":
                raise BadRequestError("merging lists cannot yet be specified in the patch")
            case _:
                raise _unknown_directive(each)
    return removed, is_replaced


def _arranged(elements: _Elements, order: list[Any], merge_key: str) -> list[Any]:
    """Return elements in an order; those that it lacks keep their place relative to their old neighbours, or follow."""
    asked = _keys_of(order, merge_key)
    placed = [each for each in elements.places if not merge_key or not isinstance(each, dict) or merge_key in each]
    old, keys = _keys_of(placed, merge_key), _keys_of(elements.merged, merge_key)
    if keys == asked and len({*keys}) == len(keys):
        return elements.merged[:]
    wanted, before = _first_places(asked), _first_places(old)
    listed, others, added = list[_Placed](), list[_Placed](), list[_Placed]()
    for number, (identity, each) in enumerate(zip(keys, elements.merged, strict=True)):
        if identity in wanted:
            listed.append((wanted[identity], number, identity, each))
        elif identity in before:
            others.append((before[identity], number, identity, each))
        else:
            added.append((0, number, identity, each))
    listed.sort()
    others.sort()
    others = [*reversed(added), *others]
    result, at = list[Any](), 0
    for _, _, identity, each in listed:
        place = before.get(identity, -1)
        while at < len(others) and before.get(others[at][2], place) < place:
            result.append(others[at][3])
            at += 1
        result.append(each)
    return result + [each for _, _, _, each in others[at:]]


def _first_places(identities: list[Hashable]) -> dict[Hashable, int]:
    """Return the places of elements; the first one of several with the same key."""
    return {identity: at for at, identity in reversed([*enumerate(identities)])}


def _keys_of(elements: list[Any], merge_key: str) -> list[Hashable]:
    """Return what makes each element of a list the same as another."""
    texts = _texts_of(elements, merge_key)
    return [_key_of(each, merge_key) for each in elements] if texts is None else texts


def _texts_of(elements: list[Any], merge_key: str) -> list[Hashable] | None:
    """Return the keys of a list's elements, if all are texts, as in most lists; otherwise None."""
    if not merge_key:
        keys = elements
    elif {*map(type, elements)} <= {dict}:
        keys = [*map(methodcaller("get", merge_key), elements)]
    else:
        return None
    return keys if {*map(type, keys)} <= {str} else None


def _lacks(element: Any, merge_key: str) -> bool:
    return bool(merge_key) and merge_key not in _object(element)


def _key_of(element: Any, merge_key: str) -> Hashable:
    """Return what makes an element of a list the same as another: the value of its merge key, or itself."""
    value = element.get(merge_key) if merge_key and type(element) is dict else None
    if type(value) is str:
        return value
    if not merge_key:
        return _identity(element)
    if _lacks(element, merge_key):
        raise BadRequestError(f"map: {_shown(element)} does not contain declared merge key: {merge_key}")
    return _identity(element[merge_key])


def _identity(value: Any) -> Hashable:
    """Return a key that is equal for equal plain values of the same type, and whose hash cannot be made to collide.

    Python hashes a number to itself, and text with a secret, so numbers are represented by their digits.
    """
    if isinstance(value, dict | list):
        raise BadRequestError(f"a plain value is wanted, to compare elements of a list by it: {_shown(value)}")
    if isinstance(value, float):
        return (value.hex(),)
    return (hex(value),) if type(value) is int else value


def _check_types(elements: list[Any]) -> type[Any]:
    """Return the type of a list's elements, which must be the same."""
    types = {type(each) for each in elements}
    if types == {list}:
        raise BadRequestError("lists of lists are not supported")
    if len(types) != 1 or types == {type(None)}:
        why = f"list element types are not identical: {_shown(elements)}"
        raise BadRequestError(why if types else "no elements in any of the given slices")
    return types.pop()


def _has_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _object(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise BadRequestError(f"expected a map[string]interface {{}}, but received {_shown(value)}")
    return value


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequestError(f"expected a []interface {{}}, but received {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return go_text(value)[:_LONGEST]


def _new(value: Any) -> Any:
    """Return a value for a field that the object lacks: without the objects that have a directive."""
    if isinstance(value, dict):
        return {
            key: member if type(member) in _PLAIN else _new(member) for key, member in value.items()
            if member is not None and not (key[:1] == "$" and _is_directive(key))
            and (type(member) in _PLAIN or not _has_directive(member))
        }  # fmt: skip
    return [_new(each) for each in value if not _has_directive(each)] if isinstance(value, list) else value


def _stored(value: Any) -> Any:
    """Return a value that the patch replaces another with: without directives and null members, which API servers drop
    when they decode it.
    """
    if isinstance(value, dict):
        kept = {}
        for key, member in value.items():
            if member is not None and not (key[:1] == "$" and _is_directive(key)):
                kept[key] = member if type(member) in _PLAIN else _stored(member)
        return kept
    if isinstance(value, list):
        return [*map(_stored, value)]
    return value


def _is_directive(key: str) -> bool:
    return key in (_PATCH, _RETAIN_KEYS) or key.startswith((f"{_ORDER}/", f"{_DELETE_VALUES}/"))
