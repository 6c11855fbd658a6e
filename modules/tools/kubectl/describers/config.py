"""Descriptions of ConfigMaps, Secrets and Namespaces."""

from base64 import b64decode
from typing import Any

from beehive.printable import printable, printable_lines
from modules.tools.kubectl.describers.common import Related, events_table, labels_and_annotations, name_and_namespace
from modules.tools.kubectl.describers.writer import AlignedWriter
from modules.tools.printing.fields import JsonObject, map_at, text_at


def describe_config_map(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of a ConfigMap: its texts, and the sizes of its binary data."""
    texts, data = map_at(obj, "data"), map_at(obj, "binaryData")
    parts = [_head(obj), "\nData\n====\n"]
    parts += [f"{printable(key)}:\n----\n{printable_lines(str(texts[key]))}\n\n" for key in sorted(texts)]
    parts.append("\nBinaryData\n====\n")
    parts += [f"{printable(key)}: {_size(data[key])} bytes\n" for key in sorted(data)]
    out = AlignedWriter()
    events_table(out, related.events, now)
    return "".join((*parts, "\n", out.text()))


def describe_secret(obj: JsonObject, _related: Related, _now: float) -> str:
    """Return the description of a Secret: the sizes of its data, and no value, not even of a token."""
    data = map_at(obj, "data")
    out = AlignedWriter()
    out.row(0)
    out.field(0, "Type", text_at(obj, "type"))
    out.row(0)
    out.row(0, "Data")
    out.row(0, "====")
    out.fields(0, ((key, f"{_size(data[key])} bytes") for key in sorted(data)))
    return _head(obj) + out.text()


def describe_namespace(obj: JsonObject, _related: Related, _now: float) -> str:
    """Return the description of a Namespace."""
    out = AlignedWriter()
    out.field(0, "Name", text_at(obj, "metadata.name"))
    labels_and_annotations(out, obj)
    out.field(0, "Status", text_at(obj, "status.phase"))
    return f"{out.text()}\nNo resource quota.\n\nNo LimitRange resource.\n"


def _head(obj: JsonObject) -> str:
    out = AlignedWriter()
    name_and_namespace(out, obj)
    labels_and_annotations(out, obj)
    return out.text()


def _size(encoded: Any) -> int:
    try:
        return len(b64decode(str(encoded), validate=True))
    except ValueError:
        return len(str(encoded))
