"""The creation of objects, by their names or by `generateName`."""

import hashlib
from typing import Final
from uuid import UUID

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.computed import computed
from modules.apimachinery.event_versions import check_creation
from modules.apimachinery.generated_names import suffix_of
from modules.apimachinery.kinds import JsonObject, Kind, key_for, key_of, uid_of, version_of
from modules.cloud.apiserver.apply import with_server_fields_removed
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.verbs.requests import is_event, named, object_of
from modules.cloud.client.calls import ApiCall

_LONGEST_BASE: Final = 58
"""Characters of `generateName` in a generated name (MaxGeneratedNameLength)."""
_ATTEMPTS: Final = 8
"""Generated names that are tried (maxNameGenerationCreateAttempts)."""


def create(cluster: Cluster, kind: Kind, request: ApiCall) -> JsonObject:
    """Create an object; return the object that the request created before its transaction seemed to be lost."""
    uid = _uid_to_create(request)
    obj = _to_create(cluster, kind, request)
    made = cluster.storage.find(key_of(obj)) if uid else None
    if made is not None and uid_of(made) == uid:
        return made
    return cluster.create(obj, check_creation if is_event(request) else None, uid, is_decoded=True)


def _uid_to_create(request: ApiCall) -> str:
    """Return the uid of the object that a request creates, the same whenever it is taken; "" for any uid."""
    if not request.message_id:
        return ""
    return str(UUID(bytes=hashlib.sha256(request.message_id.encode()).digest()[:16], version=4))


def _to_create(cluster: Cluster, kind: Kind, request: ApiCall) -> JsonObject:
    obj = named(object_of(request, kind.name), kind, request)
    metadata = obj["metadata"]
    if version_of(obj):
        raise BadRequestError("resourceVersion should not be set on objects to be created")
    prefix = metadata.get("generateName")
    if not metadata.get("name") and isinstance(prefix, str) and prefix:
        made = _generated_name(cluster, kind, request, prefix)
        obj = {**obj, "metadata": {**metadata, "name": made}}
    elif not metadata.get("name"):
        obj = {**obj, "metadata": {**metadata, "name": ""}}  # the rules of metadata refuse it, with all other faults
    return with_server_fields_removed(obj)


def _generated_name(cluster: Cluster, kind: Kind, request: ApiCall, prefix: str) -> str:
    """Return a name with a prefix that no object has, or that the request has made before; after some attempts, a name
    that an object has (createWithGenerateNameRetry).
    """
    made, uid = "", _uid_to_create(request)
    for attempt in range(_ATTEMPTS):
        made = prefix[:_LONGEST_BASE] + suffix_of(f"{uid}{attempt}" if uid else computed(cluster.clock.new_id))
        live = cluster.storage.find(key_for(kind, request.namespace, made))
        if live is None or uid_of(live) == uid:
            break
    return made
