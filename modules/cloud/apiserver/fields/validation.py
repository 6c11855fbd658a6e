"""Field validation: unknown and duplicate fields of manifests, in the API server's words.

A person's typing error (`comand:`) is otherwise no error at all: an API server ignores fields that it does not know.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from beehive.nesting import read_json
from modules.apimachinery.api_errors import BadRequestError, InvalidError
from modules.apimachinery.kinds import JsonObject, Kind

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

_MOST: Final = 20
"""Unknown fields that are named."""
_LONGEST: Final = 200
"""Characters of a field's path in a message."""
_OF_LINE: Final = "line "
"""The beginning of a sentence about a line of YAML."""
_OF_OPERATION: Final = ("op", "path", "from", "value")
"""The fields of an operation of a JSON patch (RFC 6902)."""
_MOST_OPERATIONS: Final = 100
"""Operations of a JSON patch whose fields are looked at."""
_MOST_STEPS: Final = 20
"""Steps of a path in it that are looked at."""
_DIGITS: Final = 3
"""Digits of the index of an element there, and one more; a larger one is reported as 0."""


class Merge(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """Way in which a field is merged: the tags of Kubernetes' OpenAPI, without their prefix `x-kubernetes-`."""

    list_map_keys: tuple[str, ...] = ()
    list_type: str = ""
    map_type: str = ""
    patch_merge_key: str = ""
    patch_strategy: str = ""


_UNTAGGED: Final = Merge()


class _Fields(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]
    merges: dict[str, dict[str, Merge]]
    """By type and field; a field without tags is not there."""
    atomic: frozenset[str]
    """Types that a server-side apply merges as a whole."""


@cache
def known_fields() -> _Fields:
    """Return the fields of the served kinds."""
    return decode_json(Path(__file__).with_name("fields.json").read_bytes(), _Fields)


def merge_of(of: str, field: str) -> Merge:
    """Return how a type's field is merged."""
    return known_fields().merges.get(of, {}).get(field, _UNTAGGED)


def field_types(kind: str) -> dict[str, dict[str, str]]:
    """Return the types that a kind consists of, by name, its own first; each has its fields and their types.

    A type is a name in this dictionary, or a plain one (`str`, `int`, `object`), after `[` for a list of it and `{` for
    a map of it.
    """
    known, found = known_fields(), dict[str, dict[str, str]]()
    waiting = [known.kinds[kind]]
    while waiting:
        name = waiting.pop(0)
        if name in known.types and name not in found:
            found[name] = known.types[name]
            waiting += [each.lstrip("[{") for each in found[name].values()]
    return found


def root_type_of(kind: str) -> str:
    """Return the type of a kind, by its name in `field_types`."""
    return known_fields().kinds[kind]


class FieldFaults(NamedTuple):
    """The unknown and duplicate fields of a request's body, each as a sentence."""

    told: tuple[str, ...]
    """In the order in which an API server tells them."""
    lines: int = 0
    """How many of the first are lines of YAML."""


def faults_of_object(kind: Kind, body: Any, document: bytes, duplicates: tuple[str, ...]) -> FieldFaults:
    """Return the unknown and duplicate fields of an object of a built-in kind: those of JSON in the order of the text,
    as Go's decoder finds them.

    Args:
        kind: the object's kind.
        body: the object.
        document: its JSON text, if that has a field twice.
        duplicates: a sentence for each field that the text had twice.
    """
    if document:
        return FieldFaults(tuple(_faults_of_text(kind, document)))
    unknown = unknown_paths(kind, body)
    return untyped_faults(duplicates, sorted(unknown) if duplicates else unknown)


def untyped_faults(duplicates: tuple[str, ...], unknown: Iterable[str]) -> FieldFaults:
    """Return the faults of a body that is read without its types first, as a patch, a custom resource and YAML are: its
    duplicate fields, and then its unknown ones.
    """
    lines = sum(each.startswith(_OF_LINE) for each in duplicates)
    return FieldFaults((*duplicates, *(f'unknown field "{path[:_LONGEST]}"' for path in unknown))[:_MOST], lines)


def check_faults(kind: Kind, faults: FieldFaults, shown: str | None) -> None:
    """Refuse a body with unknown or duplicate fields.

    Args:
        kind: the object's kind.
        faults: the fields.
        shown: a patch, as it is told; None: the body is a whole object.

    Raises:
        BadRequestError: there are some, in a whole object.
        InvalidError: there are some, in a patch.
    """
    if not faults.told:
        return
    lines, others = faults.told[: faults.lines], faults.told[faults.lines :]
    causes = ((yaml_error(lines),) if lines else ()) + others
    why = f"strict decoding error: {', '.join(causes)}"
    if shown is not None:
        raise InvalidError("", "", "patch", f"Invalid value: {shown}: {why}")
    version = kind.api_version.rpartition("/")[2]
    raise BadRequestError(f'{kind.name} in version "{version}" cannot be handled as a {kind.name}: {why}')


def yaml_error(lines: Sequence[str]) -> str:
    """Return what Go's YAML says of lines."""
    return "\n  ".join(("yaml: unmarshal errors:", *lines))


def _faults_of_text(kind: Kind, document: bytes) -> Iterator[str]:
    known = known_fields()
    value = read_json(document, object_pairs_hook=_Members)
    found = _faults_inside(known.types, known.kinds.get(kind.key_name, ""), value, "")
    yield from islice(dict.fromkeys(found), _MOST)


class _Members(list[tuple[str, Any]]):
    """The members of an object of a text, also those that it has twice."""


def _faults_inside(types: dict[str, dict[str, str]], of: str, value: Any, path: str) -> Iterator[str]:
    """Yield a sentence for each unknown or duplicate field, in the order of the text. An unknown one is not looked
    into.
    """
    if of.startswith("[") and isinstance(value, list) and not isinstance(value, _Members):
        for index, element in enumerate(value):
            yield from _faults_inside(types, of[1:], element, f"{path}[{index}]")
    if not isinstance(value, _Members) or not (of.startswith("{") or of in types):
        return
    names = set[str]()
    for name, member in value:
        place = (f"{path}.{name}" if path else name)[:_LONGEST]
        inner = of[1:] if of.startswith("{") else types[of].get(name)
        if inner is None:
            yield f'unknown field "{place}"'
            continue
        if name in names:
            yield f'duplicate field "{place}"'
        names.add(name)
        yield from _faults_inside(types, inner, member, place)


def operation_faults(patch: Any, document: bytes) -> tuple[str, ...]:
    """Return a sentence for each unknown or duplicate field of the operations of a JSON patch."""
    twice = duplicate_fields(document) if document else ()
    operations = patch if isinstance(patch, list) else []
    unknown = (
        f"[{index}].{name}"[:_LONGEST]
        for index, each in enumerate(operations)
        if isinstance(each, dict)
        for name in each
        if name not in _OF_OPERATION
    )
    told = (*(f'duplicate field "{path}"' for path in twice), *(f'unknown field "{path}"' for path in unknown))
    return tuple(f"json patch {each}" for each in told[:_MOST])


def objects_of_patch(patch: Any) -> list[JsonObject]:
    """Return what the first operations of a JSON patch add, each as an object with nothing else."""
    return [
        _nested(each["path"].split("/")[1:], each.get("value"))
        for each in (patch[:_MOST_OPERATIONS] if isinstance(patch, list) else [])
        if isinstance(each, dict) and each.get("op") in ("add", "replace") and isinstance(each.get("path"), str)
    ]


def _nested(steps: Sequence[str], value: Any) -> Any:
    for step in reversed(steps[:_MOST_STEPS]):
        place = int(step) if step.isascii() and step.isdecimal() and len(step) < _DIGITS else 0
        is_index = step == "-" or (step.isascii() and step.isdecimal())
        value = [*[None] * place, value] if is_index else {step.replace("~1", "/").replace("~0", "~"): value}
    return value


def unknown_fields(kind: Kind, obj: JsonObject) -> tuple[str, ...]:
    """Return a sentence for each field that the kind does not have; at most the first twenty."""
    return tuple(f'unknown field "{path}"' for path in unknown_paths(kind, obj))


def unknown_paths(kind: Kind, obj: JsonObject) -> tuple[str, ...]:
    """Return the paths of fields that the kind does not have; at most the first twenty."""
    known = known_fields()
    found = _unknown(known.types, known.kinds.get(kind.key_name, ""), obj, "")
    return tuple(islice(found, _MOST))


def unknown_metadata(metadata: Any, path: str) -> tuple[str, ...]:
    """Return the paths of fields that no object has in its metadata; at most the first twenty.

    Args:
        metadata: an object's metadata.
        path: their own path.
    """
    found = _unknown(known_fields().types, "V1ObjectMeta", metadata, path)
    return tuple(islice(found, _MOST))


def _unknown(types: dict[str, dict[str, str]], of: str, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of unknown fields."""
    if of.startswith("[") and isinstance(value, list):
        for index, element in enumerate(value):
            yield from _unknown(types, of[1:], element, f"{path}[{index}]")
    elif of.startswith("{") and isinstance(value, dict):
        for key, member in value.items():
            yield from _unknown(types, of[1:], member, f"{path}.{key}"[:_LONGEST])
    elif of in types and isinstance(value, dict):
        for name, member in value.items():
            place = (f"{path}.{name}" if path else name)[:_LONGEST]
            if name in types[of]:
                yield from _unknown(types, types[of][name], member, place)
            else:
                yield place


def known_only(of: str, value: Any) -> Any:
    """Return a value of a type without the fields that the type does not have."""
    types = known_fields().types
    if of.startswith("[") and isinstance(value, list):
        return [known_only(of[1:], each) for each in value]
    if of in types and isinstance(value, dict):
        return {name: known_only(types[of][name], each) for name, each in value.items() if name in types[of]}
    return value


def duplicate_fields(body: bytes) -> tuple[str, ...]:
    """Return the paths of fields that objects of a JSON text have twice, such as `spec.replicas`; none for text that is
    not JSON.
    """
    try:
        found = read_json(body, object_pairs_hook=_repeated)
    except ValueError:
        return ()
    return tuple(dict.fromkeys(_inside(found, "")))[:_MOST]


class _Repeated(list[str]):
    """The paths of the fields that an object, or an object in it, has twice; at most twenty."""


def _repeated(pairs: list[tuple[str, Any]]) -> _Repeated:
    found, names = _Repeated(), set[str]()
    for name, value in pairs:
        if name in names:
            found.append(name)
        names.add(name)
        found += (f"{name}{path}"[:_LONGEST] for path in _inside(value, "."))
    del found[_MOST:]
    return found


def _inside(value: Any, separator: str) -> Iterator[str]:
    """Yield the paths in a value of a field."""
    if isinstance(value, _Repeated):
        for path in value:
            yield f"{separator}{path}"
    elif isinstance(value, list):
        for index, each in enumerate(value):
            for path in _inside(each, "."):
                yield f"[{index}]{path}"
