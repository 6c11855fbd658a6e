"""Objects, keys and a cache for these tests."""

import json
from typing import Any

from modules.apimachinery.resources import Resource
from modules.edge.metaserver.resources import find
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache

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


def key(name: str, namespace: str = "default", kind: str = "pod") -> CacheKey:
    """A key; of a pod unless said otherwise."""
    return CacheKey(kind, namespace, name)


def cache_of(*objects: dict[str, Any], **limits: int) -> WatchCache:
    """A cache of a store with these objects."""
    cache = WatchCache(FIRST, **limits)
    cache.load({key_of(each): text(each) for each in objects})
    return cache


def put(cache: WatchCache, *objects: dict[str, Any]) -> None:
    """The store has these now, in one commit."""
    cache.apply_store_changes([(key_of(each), text(each)) for each in objects])


def drop(cache: WatchCache, *keys: CacheKey) -> None:
    """The store has these no more."""
    cache.apply_store_changes([(each, None) for each in keys])


def key_of(value: dict[str, Any]) -> CacheKey:
    """The key of an object."""
    return CacheKey(value["kind"].lower(), value["metadata"].get("namespace", ""), value["metadata"]["name"])
