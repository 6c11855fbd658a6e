"""Describes objects: by the describer of their kind, or all fields with labels made from their names."""

import re
from collections.abc import Callable
from typing import Any, Final

from modules.tools.kubectl.custom_columns import go_text
from modules.tools.kubectl.describers.common import Related, events_table, labels_and_annotations, name_and_namespace
from modules.tools.kubectl.describers.config import describe_config_map, describe_namespace, describe_secret
from modules.tools.kubectl.describers.node import describe_node
from modules.tools.kubectl.describers.pod import describe_pod
from modules.tools.kubectl.describers.service import describe_endpoints, describe_service
from modules.tools.kubectl.describers.storage import describe_claim, describe_volume
from modules.tools.kubectl.describers.writer import AlignedWriter
from modules.tools.printing.fields import JsonObject, text_at

_DESCRIBERS: Final[dict[tuple[str, str], Callable[[JsonObject, Related, float], str]]] = {
    ("v1", "ConfigMap"): describe_config_map,
    ("v1", "Endpoints"): describe_endpoints,
    ("v1", "Namespace"): describe_namespace,
    ("v1", "Node"): describe_node,
    ("v1", "PersistentVolume"): describe_volume,
    ("v1", "PersistentVolumeClaim"): describe_claim,
    ("v1", "Pod"): describe_pod,
    ("v1", "Secret"): describe_secret,
    ("v1", "Service"): describe_service,
}

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


def describe_object(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of an object of any kind, with a line break at its end.

    Args:
        obj: the object.
        related: its related objects.
        now: seconds since the epoch, for ages.
    """
    key = text_at(obj, "apiVersion"), text_at(obj, "kind")
    return _DESCRIBERS.get(key, describe_any)(obj, related, now)
