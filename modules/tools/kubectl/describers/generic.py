"""Descriptions of objects of any kind: all fields, with labels made from their names."""

import re
from typing import Any, Final

from modules.tools.kubectl.custom_columns import go_text
from modules.tools.kubectl.describers.common import Related, events_table, labels_and_annotations, name_and_namespace
from modules.tools.kubectl.describers.writer import AlignedWriter
from modules.tools.printing.fields import JsonObject

_SKIPPED: Final = frozenset(
    f".metadata.{name}" for name in ("managedFields", "name", "namespace", "labels", "annotations")
)
_ACRONYMS: Final = frozenset(("API", "URL", "UID", "OSB", "GUID"))
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|-+")
_PLAIN: Final = re.compile(r"[A-Za-z-]+")


def describe_any(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of an object of a kind that has none of its own."""
    out = AlignedWriter()
    name_and_namespace(out, obj)
    labels_and_annotations(out, obj)
    _members(out, 0, obj, "")
    events_table(out, related.events, now)
    return out.text()


def smart_label(field: str) -> str:
    """Return a label made from a field's name: `Lease Duration Seconds` of `leaseDurationSeconds`."""
    if not _PLAIN.fullmatch(field):
        return field
    words = (
        word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:] for word in _WORDS.findall(field)
    )
    return " ".join(words)


def _members(out: AlignedWriter, level: int, obj: JsonObject, path: str) -> None:
    for key in sorted(obj):
        where = f"{path}.{key}"
        if where not in _SKIPPED:
            _member(out, level, key, obj[key], where)


def _member(out: AlignedWriter, level: int, key: str, value: Any, path: str) -> None:
    if isinstance(value, dict):
        out.row(level, f"{smart_label(key)}:")
        _members(out, level + 1, value, path)
    elif isinstance(value, list):
        out.row(level, f"{smart_label(key)}:")
        for element in value:
            if isinstance(element, dict):
                _members(out, level + 1, element, path)
            else:
                out.row(level + 1, go_text(element))
    else:
        out.field(level, smart_label(key), go_text(value))
