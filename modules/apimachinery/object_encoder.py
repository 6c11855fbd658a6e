"""Encoding of objects in the form that a client accepts."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json, json_decoder
from modules.apimachinery.autoscaler_versions import is_of_older, to_newer
from modules.apimachinery.conversion import REVISION
from modules.apimachinery.event_versions import is_newer, to_core
from modules.apimachinery.go_json import escaped
from modules.apimachinery.jsonpath import column_path, text_of
from modules.apimachinery.options import Form
from modules.apimachinery.printing.ages import ago
from modules.apimachinery.printing.columns import Column, columns_of, has_columns
from modules.apimachinery.printing.fields import JsonObject
from modules.apimachinery.printing.pods import ended_conditions
from modules.apimachinery.resources import PrinterColumn, Resource

_INITIAL_END: Final = "k8s.io/initial-events-end"
_BLUEPRINT: Final = "kubernetes.io/initial-events-list-blueprint"
_META: Final = "meta.k8s.io/v1"
_DOCUMENT: Final = json_decoder(dict[str, msgspec.Raw])


def encoded(obj: JsonObject) -> bytes:
    """Return an object as JSON. A ControllerRevision is escaped as Go does it: kube-controller-manager compares its
    data with its own encoding.
    """
    text = msgspec.json.encode(obj)
    return escaped(text) if obj.get("kind") == REVISION else text


def custom_column(column: PrinterColumn) -> Column:
    """Return the column that shows the first value at a path, if it has the column's type; a date as an age."""
    path = column_path(column.path)

    def cell(obj: JsonObject, now: float) -> str | float | None:
        found = path.first(obj)
        match column.type:
            case "date":
                return ago(found, now) if isinstance(found, str) else None
            case "integer" if isinstance(found, int | float) and not isinstance(found, bool):
                return int(found)
            case "number" if isinstance(found, int | float) and not isinstance(found, bool):
                return found
            case "boolean" if isinstance(found, bool):
                return found
            case "string" if found is not None:
                return text_of(found)
        return None

    return Column(column.name, cell, column.priority > 0, column.type)


class ObjectEncoder:
    """An encoder of objects of one kind: whole, as rows of a table (`kubectl get`), or their metadata only.

    Args:
        resource: kind of the objects.
        form: form that the client accepts.
        included: part of the object in a table's row: `Object`, `Metadata` or `None`.
        now: seconds since the epoch, for ages.
    """

    def __init__(self, resource: Resource, form: Form, included: str, now: float) -> None:
        self._resource = resource
        self._form = form
        self._included = included
        self._now = now

    def encode_object(self, text: bytes) -> bytes:
        """Return one object in this form."""
        match self._form:
            case Form.OBJECT:
                return text
            case Form.METADATA:
                return msgspec.json.encode(_partial(text))
            case _:
                metadata = decode_json(_DOCUMENT.decode(text)["metadata"])
                return self._table([text], {"resourceVersion": metadata.get("resourceVersion", "")})

    def encode_list(self, texts: Iterable[bytes], metadata: dict[str, Any]) -> bytes:
        """Return a list in this form, with the list's metadata."""
        return b"".join(self.parts_of_list(texts, metadata))

    def parts_of_list(self, texts: Iterable[bytes], metadata: dict[str, Any]) -> Iterator[bytes]:
        """Yield the parts of a list in this form: its beginning, each object, and its end."""
        field = "items"
        match self._form:
            case Form.OBJECT:
                head = {"kind": f"{self._resource.kind}List", "apiVersion": self._resource.group_version}
                items = iter(texts)
            case Form.METADATA:
                head = {"kind": "PartialObjectMetadataList", "apiVersion": _META}
                items = (msgspec.json.encode(_partial(text)) for text in texts)
            case _:
                columns, field = self._columns(), "rows"
                head = self._table_head(columns)
                items = (msgspec.json.encode(self._row(columns, text)) for text in texts)
        yield msgspec.json.encode({**head, "metadata": metadata})[:-1] + f',"{field}":['.encode()
        for number, item in enumerate(items):
            yield b"," + item if number else item
        yield b"]}"

    def _end_of_initial_events(self) -> dict[str, str]:
        """Return the annotations of the bookmark after the present objects of a watch; one is an empty list."""
        is_whole = self._form is Form.OBJECT
        kind = f"{self._resource.kind}List" if is_whole else "PartialObjectMetadataList"
        version = self._resource.group_version if is_whole else _META
        blueprint = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": {}, "items": None}) + b"\n"
        return {_INITIAL_END: "true", _BLUEPRINT: b64encode(blueprint).decode()}

    def encode_bookmark(self, version: int, *, is_end: bool = False) -> bytes:
        """Return the object of a bookmark, only its metadata; with `is_end` of the one after the present objects."""
        metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if is_end:
            metadata["annotations"] = self._end_of_initial_events()
        if self._form is Form.TABLE:
            return self._table([], metadata)
        kind = self._resource.kind if self._form is Form.OBJECT else "PartialObjectMetadata"
        api_version = self._resource.group_version if self._form is Form.OBJECT else _META
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})

    def _table(self, texts: Iterable[bytes], metadata: dict[str, Any]) -> bytes:
        columns = self._columns()
        rows = [self._row(columns, text) for text in texts]
        return msgspec.json.encode({**self._table_head(columns), "metadata": metadata, "rows": rows})

    def _table_head(self, columns: Sequence[Column]) -> dict[str, Any]:
        definitions = [_definition(column) for column in columns]
        return {"kind": "Table", "apiVersion": _META, "columnDefinitions": definitions}

    def _columns(self) -> Sequence[Column]:
        kind = self._resource.key_kind if self._resource.is_custom else self._resource.kind
        if not self._resource.is_custom or has_columns(kind):
            return columns_of(kind)
        return (*columns_of("")[:1], *map(custom_column, self._resource.columns))

    def _row(self, columns: Sequence[Column], text: bytes) -> dict[str, Any]:
        obj = decode_json(text)
        printed = to_core(obj) if is_newer(self._resource) else to_newer(obj) if is_of_older(self._resource) else obj
        row: dict[str, Any] = {"cells": [column.cell(printed, self._now) for column in columns]}
        if self._resource.kind == "Pod" and (conditions := ended_conditions(obj)):
            row["conditions"] = conditions
        if self._included == "Object":
            row["object"] = msgspec.Raw(text)
        elif self._included == "Metadata":
            row["object"] = _partial(text)
        return row


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.title,
        "type": column.type,
        "format": "name" if column.title == "Name" else "",
        "description": "",
        "priority": int(column.wide),
    }


def _partial(text: bytes) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": _DOCUMENT.decode(text)["metadata"]}
