"""Field validation: unknown and duplicate fields of manifests, in the API server's words.

A person's typing error (`comand:`) is otherwise no error at all: an API server ignores fields that it does not know.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.nesting import read_json
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import JsonObject, Kind

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

_MOST: Final = 20
"""Unknown fields that are named."""
_LONGEST: Final = 200
"""Characters of a field's path in a message."""


class Merge(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """How a field is merged: the tags of Kubernetes' OpenAPI, without their prefix `x-kubernetes-`."""

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


def check_fields(kind: Kind, obj: Any, mode: str, duplicates: tuple[str, ...] = (),
                 unknown: tuple[str, ...] = (), *, is_whole: bool = False) -> tuple[str, ...]:  # fmt: skip
    """Return the warnings about an object's fields.

    Args:
        kind: the object's kind.
        obj: the object, or a patch of it.
        mode: `Strict`, `Warn` or `Ignore`, as in the parameter `fieldValidation`; "" is `Warn`.
        duplicates: fields that the text had twice.
        unknown: the unknown fields of an object of a custom kind.
        is_whole: whether it is a whole object, which an API server's error names.

    Raises:
        BadRequestError: the mode is unknown, or it is `Strict` and there is an unknown or duplicate field.
    """
    if mode not in (STRICT, WARN, IGNORE, ""):
        known = '"", "Ignore", "Strict", "Warn"'
        raise BadRequestError(f"fieldValidation: Unsupported value: {mode[:40]!r}: supported values: {known}")
    if mode == IGNORE or not isinstance(obj, dict):
        return ()
    faults = (
        *(f'unknown field "{name[:_LONGEST]}"' for name in unknown),
        *unknown_fields(kind, obj),
        *(f'duplicate field "{name[:_LONGEST]}"' for name in duplicates),
    )
    if faults and mode == STRICT:
        version = kind.api_version.rpartition("/")[2]
        about = f'{kind.name} in version "{version}" cannot be handled as a {kind.name}: ' if is_whole else ""
        raise BadRequestError(f"{about}strict decoding error: {', '.join(faults)}")
    return faults


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
    """Yield the paths of unknown fields; except directives of patches (`$patch`)."""
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
            elif not name.startswith("$"):
                yield place


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
