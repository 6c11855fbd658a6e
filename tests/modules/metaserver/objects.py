"""Objects, keys and a view for these tests."""

from __future__ import annotations

import json
from typing import Any

from modules.metaserver.resources import Resource, find
from modules.metaserver.view import Key, View

FIRST = 1 << 60


def resource(plural: str = "pods", group: str = "") -> Resource:
    """A kind by its plural."""
    found = find(group, "v1", plural)
    assert found is not None
    return found


def obj(name: str, namespace: str = "default", kind: str = "Pod", **fields: Any) -> dict[str, Any]:
    """An object; `labels`, `uid` and `annotations` go into its metadata."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    metadata |= {key: fields.pop(key) for key in ("labels", "uid", "annotations") if key in fields}
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, **fields}


def text(value: Any) -> bytes:
    """Its JSON text."""
    return json.dumps(value, separators=(",", ":")).encode()


def key(name: str, namespace: str = "default", kind: str = "pod") -> Key:
    """A key; of a pod unless said otherwise."""
    return Key(kind, namespace, name)


def view_of(*objects: dict[str, Any], **limits: int) -> View:
    """A view of a store with these objects."""
    view = View(FIRST, **limits)
    view.load({key_of(each): text(each) for each in objects})
    return view


def put(view: View, *objects: dict[str, Any]) -> None:
    """The store has these now, in one commit."""
    view.store_changed([(key_of(each), text(each)) for each in objects])


def drop(view: View, *keys: Key) -> None:
    """The store has these no more."""
    view.store_changed([(each, None) for each in keys])


def key_of(value: dict[str, Any]) -> Key:
    """The key of an object."""
    return Key(value["kind"].lower(), value["metadata"].get("namespace", ""), value["metadata"]["name"])
